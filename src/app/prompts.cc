// SPDX-License-Identifier: Apache-2.0
#include "app/prompts.h"

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
  for (EvalPrompt& one : read_prompt_file(file, 0)) prompts.push_back(prompt_of(std::move(one), system));
  return prompts;
}

std::string read_prompt_text(const std::string& file) {
  std::string text = read_prompt_text(std::filesystem::path(file), kMaxBytes);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  drop_newline(text);
  return text;
}

}  // namespace ashlar
