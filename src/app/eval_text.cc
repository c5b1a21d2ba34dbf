// SPDX-License-Identifier: Apache-2.0
#include "app/eval_text.h"

#include "app/command_line/validators.h"
#include "app/eval_prompts.h"
#include "base/error.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

constexpr size_t kLargestText = size_t{256} << 20;

// The token that the tokenizer puts before a text, if it does so.
std::optional<int32_t> first_of_texts(const Tokenizer& tokenizer) {
  const std::vector<int32_t> with = tokenizer.encode("a", {.add_special_tokens = true});
  const std::vector<int32_t> without = tokenizer.encode("a", {.add_special_tokens = false});
  if (with.empty() || without.empty() || with.front() == without.front()) return std::nullopt;
  return with.front();
}

}  // namespace

void add_text_flags(CLI::App& command, TextStudy& options) {
  command.add_option("--text", options.text, "The text, UTF-8")->type_name("FILE")->required();
  command.add_option("--window", options.study.window, "Tokens seen together; the second half is predicted")
      ->type_name("N")
      ->transform(whole(2, 1 << 20))
      ->capture_default_str();
  command.add_option("--limit", options.study.limit, "Windows (0: all)")
      ->type_name("N")
      ->transform(whole(0, 1 << 30))
      ->capture_default_str();
  command.add_option("--json", options.json, "Write every figure to this file")->type_name("FILE");
}

std::vector<std::vector<int32_t>> read_windows(const Session& session, const TextStudy& options) {
  const std::string text = read_text_file(options.text, kLargestText);
  const int32_t longest = session.model().max_positions();
  if (options.study.window > longest) {
    throw Error("eval", "--window is " + std::to_string(options.study.window) + "; the context holds " +
                            std::to_string(longest) + " tokens");
  }
  const std::vector<int32_t> ids = session.checked(session.tokenizer().encode(text, {.add_special_tokens = false}));
  auto windows = text_windows(ids, first_of_texts(session.tokenizer()), options.study);
  if (windows.empty()) {
    throw Error("eval", options.text + ": is " + std::to_string(ids.size()) + " tokens long; expected " +
                            std::to_string(options.study.window) + " (--window) at least");
  }
  return windows;
}

Json describe_text_study(Session& session, const TextStudy& options) {
  Json json = describe_subject(session, {});
  json.erase("prompt_file");
  json["text_file"] = options.text;
  return json;
}

}  // namespace ashlar
