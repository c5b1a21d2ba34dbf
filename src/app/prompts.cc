#include "app/prompts.h"

#include <fstream>
#include <iostream>
#include <istream>
#include <sstream>

#include "base/error.h"
#include "io/mapped_file.h"
#include "measure/prompt_file.h"

namespace ashlar {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

Json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

// A system message comes before those that the file gives.
Prompt prompt_of(EvalPrompt one, const std::string& system) {
  Prompt prompt;
  prompt.ids = std::move(one.ids);
  if (one.messages.is_null()) {
    prompt.text = one.name;
    return prompt;
  }
  prompt.messages = Json::array();
  if (!system.empty()) prompt.messages.push_back(message("system", system));
  for (Json& each : one.messages) prompt.messages.push_back(std::move(each));
  const Json& last = prompt.messages.back()["content"];
  prompt.text = last.is_string() ? last.get<std::string>() : last.dump();
  return prompt;
}

// What comes from a pipe has no size to ask for beforehand.
std::string read_stream(std::istream& stream) {
  std::string text;
  char chunk[1 << 16];
  while (stream.read(chunk, sizeof chunk) || stream.gcount() > 0) {
    text.append(chunk, static_cast<size_t>(stream.gcount()));
    if (text.size() > kMaxBytes) throw Error("prompts", "the prompt is longer than 64 MiB");
  }
  return text;
}

void drop_newline(std::string& text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
}

}  // namespace

Prompt make_prompt(const std::string& text, const std::string& system) {
  Prompt prompt{text, Json::array(), {}};
  if (!system.empty()) prompt.messages.push_back(message("system", system));
  prompt.messages.push_back(message("user", text));
  return prompt;
}

std::vector<Prompt> read_prompts(const std::filesystem::path& file, const std::string& system) {
  std::vector<Prompt> prompts;
  if (file.extension() == ".jsonl") {
    for (EvalPrompt& one : read_prompt_file(file, 0)) prompts.push_back(prompt_of(std::move(one), system));
  } else {
    std::istringstream lines(read_text_file(file, kMaxBytes));
    for (std::string line; std::getline(lines, line);) {
      drop_newline(line);
      if (line.find_first_not_of(" \t\r") != std::string::npos) prompts.push_back(make_prompt(line, system));
    }
  }
  if (prompts.empty()) throw Error("prompts", file.string() + ": holds no prompt");
  return prompts;
}

std::string read_prompt_text(const std::string& file) {
  std::string text;
  if (file == "-" || std::filesystem::is_fifo(file) || std::filesystem::is_character_file(file)) {
    std::ifstream pipe;
    if (file != "-") pipe.open(file, std::ios::binary);
    text = read_stream(file == "-" ? std::cin : pipe);
  } else {
    text = read_text_file(file, kMaxBytes);
  }
  drop_newline(text);
  return text;
}

}  // namespace ashlar
