// SPDX-License-Identifier: Apache-2.0
#include "io/flat_map.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

constexpr size_t kMaxBytes = 64 << 10;
constexpr size_t kMaxEntries = 1000;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool is_key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  void read_line(std::string_view line) {
    ++line_;
    const bool indented = !line.empty() && is_blank(line.front());
    line = trim(line);
    if (line.empty() || line.front() == '#' || line == "---" || line == "...") return;
    size_t end = 0;
    while (end < line.size() && is_key_char(line[end])) ++end;
    const std::string_view rest = trim(line.substr(end));
    if (end == 0 || line.front() == '-' || rest.empty() || (rest.front() != '=' && rest.front() != ':')) {
      fail("found \"" + for_message(line) + "\"; expected a line of the form key = value or key: value");
    }
    if (indented) fail("\"" + for_message(line) + "\" is indented; expected a flat map, nothing nested");
    FlatEntry entry{std::string(line.substr(0, end)), {}, false, line_};
    read_value(trim(rest.substr(1)), entry);
    const auto same = [&](const FlatEntry& other) { return other.key == entry.key; };
    if (std::any_of(entries.begin(), entries.end(), same)) {
      fail("\"" + for_message(entry.key) + "\" is there twice; expected each key once");
    }
    if (entries.size() == kMaxEntries) fail("more than " + std::to_string(kMaxEntries) + " entries");
    entries.push_back(std::move(entry));
  }

  std::vector<FlatEntry> entries;

 private:
  void read_value(std::string_view text, FlatEntry& entry) const {
    entry.quoted = !text.empty() && (text.front() == '"' || text.front() == '\'');
    std::string_view value;
    if (entry.quoted) {
      const size_t end = text.find(text.front(), 1);
      if (end == std::string_view::npos) fail("the quote of \"" + for_message(entry.key) + "\" has no end");
      value = text.substr(1, end - 1);
      const std::string_view after = trim(text.substr(end + 1));
      if (!after.empty() && after.front() != '#') {
        fail("found \"" + for_message(after) + "\" after the value of \"" + for_message(entry.key) +
             "\"; expected the end of the line or a comment");
      }
    } else {
      value = trim(text.substr(0, text.find('#')));
      if (value.find_first_of("[]{}\"',|>&*!") != std::string_view::npos) {
        fail("\"" + for_message(entry.key) + "\" is " + for_message(value) + "; expected a number or a word");
      }
    }
    if (value.empty()) {
      fail("\"" + for_message(entry.key) + "\" has no value; expected a number or a word on the same line");
    }
    entry.value = value;
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw Error("config", name_ + ":" + std::to_string(line_) + ": " + message);
  }

  const std::string& name_;
  int line_ = 0;
};

}  // namespace

std::vector<FlatEntry> parse_flat_map(std::string_view text, const std::string& name) {
  if (text.size() > kMaxBytes) {
    throw Error("config", name + ": has " + std::to_string(text.size()) + " bytes; expected a flat map of at most " +
                              std::to_string(kMaxBytes));
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Reader reader(name);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    reader.read_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::move(reader.entries);
}

double number_of(const FlatEntry& entry, const std::string& name) {
  const char* begin = entry.value.data();
  const char* end = begin + entry.value.size();
  if (begin[0] == '+' && begin[1] != '-') ++begin;
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (entry.quoted || error != std::errc() || stop != end || !std::isfinite(value)) {
    throw Error("config",
                place_of(entry, name) + "\"" + for_message(entry.key) + "\" is " +
                    (entry.quoted ? "the text \"" + for_message(entry.value) + "\"" : for_message(entry.value)) +
                    "; expected a number");
  }
  return value;
}

std::string place_of(const FlatEntry& entry, const std::string& name) {
  return name + ":" + std::to_string(entry.line) + ": ";
}

}  // namespace ashlar
