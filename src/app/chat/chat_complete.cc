// SPDX-License-Identifier: Apache-2.0
#include "app/chat/chat_complete.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "app/chat/chat_state.h"
#include "text/tokenizer/utf8.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 500;  // that begin so: more than anyone reads

std::vector<std::string> beginning_with(std::string_view word, std::vector<std::string> texts) {
  texts.erase(std::remove_if(texts.begin(), texts.end(), [word](const auto& text) { return !text.starts_with(word); }),
              texts.end());
  std::sort(texts.begin(), texts.end());
  return texts;
}

// A name is drawn on the terminal and becomes a part of the line: bytes that steer either are none of it.
bool is_plain(std::string_view name) {
  if (!text::is_valid_utf8(name)) return false;
  unsigned char before = 0;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || (before == 0xC2 && byte < 0xA0)) return false;  // the last: U+0080 to U+009F
    before = byte;
  }
  return true;
}

std::vector<std::string> files_beginning_with(std::string_view word) {
  const size_t slash = word.rfind('/');
  const std::string folder(word.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
  const std::string_view rest = word.substr(folder.size());
  const bool hidden = rest.starts_with('.');
  std::vector<std::string> out;
  std::error_code failed;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, failed), end;
       !failed && at != end && out.size() < kMaxFiles; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    std::error_code unknown;
    if (name.starts_with('.') != hidden || !name.starts_with(rest) || !is_plain(name)) continue;
    out.push_back(folder + name + (at->is_directory(unknown) ? "/" : ""));
  }
  // What all have in common is not known of some.
  if (out.size() == kMaxFiles) return {};
  return beginning_with(word, std::move(out));
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

}  // namespace

ChatCompletion complete_chat(std::string_view before) {
  ChatCompletion out;
  if (!before.starts_with('/')) return out;
  const size_t space = before.find_first_of(" \t");
  if (space == std::string_view::npos) {
    out.choices = beginning_with(before, chat_commands());
    return out;
  }
  const std::string_view command = before.substr(0, space);
  out.from = before.find_first_not_of(" \t", space);
  if (out.from == std::string_view::npos) out.from = before.size();
  const std::string_view word = before.substr(out.from);
  if (command == "/set" && word.find_first_of(" \t=") == std::string_view::npos)
    out.choices = beginning_with(word, chat_settings());
  if (command == "/save" || command == "/load") out.choices = files_beginning_with(word);
  return out;
}

std::string common_start(const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  std::string start = texts.front();
  for (const std::string& text : texts) {
    size_t same = 0;
    while (same < start.size() && same < text.size() && start[same] == text[same]) ++same;
    while (same > 0 && same < start.size() && !begins_character(start[same])) --same;
    start.resize(same);
  }
  return start;
}

std::string in_columns(const std::vector<std::string>& texts, size_t width) {
  size_t longest = 0;
  for (const std::string& text : texts) longest = std::max(longest, characters(text));
  const size_t columns = std::max<size_t>(1, (width + 1) / (longest + 2));
  const size_t rows = (texts.size() + columns - 1) / columns;
  std::string out;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t at = row; at < texts.size(); at += rows) {
      const bool last = at + rows >= texts.size();
      out += texts[at] + (last ? "\n" : std::string(longest + 2 - characters(texts[at]), ' '));
    }
  }
  return out;
}

}  // namespace ashlar
