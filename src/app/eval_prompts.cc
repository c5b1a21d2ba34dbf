// SPDX-License-Identifier: Apache-2.0
#include "app/eval_prompts.h"

#include <algorithm>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "base/error.h"
#include "measure/build_info.h"

namespace ashlar {
namespace {

[[noreturn]] void fail(const EvalPrompt& prompt, const std::string& what) {
  throw Error("prompts", prompt.name + ": " + what);
}

std::vector<int32_t> encode(const Session& session, const EvalPrompt& prompt, bool raw) {
  if (!prompt.ids.empty()) return prompt.ids;
  try {
    if (!raw && session.has_chat_template()) return session.encode_chat(prompt.messages);
    const Json& content = prompt.messages.back()["content"];
    if (content.is_string()) return session.encode_raw(content.get<std::string>());
  } catch (const Error& error) {
    fail(prompt, std::string(error.message()));
  }
  fail(prompt, "content is no string; --raw needs one");
}

// What the engine would refuse, by which time the line is no longer known.
void check_fit(const Session& session, const EvalPrompt& prompt, const std::vector<int32_t>& ids) {
  if (ids.empty()) fail(prompt, "has no tokens; expected at least one");
  const int32_t vocab = session.config().vocab;
  const auto outside = std::find_if(ids.begin(), ids.end(), [vocab](int32_t id) { return id < 0 || id >= vocab; });
  if (outside != ids.end()) {
    fail(prompt, "has token id " + std::to_string(*outside) + "; the vocabulary has " + std::to_string(vocab));
  }
  const int32_t longest = session.model().max_positions();
  if (longest - static_cast<int64_t>(ids.size()) < 2) {
    fail(prompt, "has " + std::to_string(ids.size()) + " tokens; the context holds " + std::to_string(longest) +
                     ", two of them for the answer");
  }
}

}  // namespace

void add_prompt_flags(CLI::App& command, EvalBasics& basics, int32_t& max_tokens) {
  command
      .add_option("--prompts", basics.prompts,
                  "JSONL: prompt, messages, turns, question or prompt_ids a line (default: built-in)")
      ->type_name("FILE");
  command.add_option("--limit", basics.limit, "Take the first N prompts only (0: all)")
      ->type_name("N")
      ->transform(whole(0, 1 << 24))
      ->capture_default_str();
  command.add_flag("--raw", basics.raw, "Take prompts as they are, without the chat template");
  command.add_option("-n,--max-tokens", max_tokens, "Longest answer")
      ->type_name("N")
      ->transform(whole(2, 1 << 24))
      ->capture_default_str();
}

void add_study_flags(CLI::App& command, EvalBasics& basics, uint64_t& seed, int32_t& batch,
                     const std::string& picture) {
  command.add_option("--seed", seed, "Seed of the sampling noise")
      ->type_name("S")
      ->transform(whole(0, UINT64_MAX))
      ->capture_default_str();
  command.add_option("--batch", batch, "Answers at a time; with more than 1, tokens/s is each answer's own")
      ->transform(whole(1, 256))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--json", basics.json, "Write every figure to this file")->type_name("FILE");
  command.add_option("--svg", basics.svg, "Write a picture: " + picture)->type_name("FILE");
  add_session_flags(command, basics.session);
}

std::vector<PromptIds> encode_prompts(const Session& session, const std::vector<EvalPrompt>& prompts, size_t limit,
                                      bool raw) {
  std::vector<PromptIds> encoded;
  for (const EvalPrompt& prompt : prompts) {
    if (limit > 0 && encoded.size() == limit) break;
    PromptIds& one = encoded.emplace_back();
    one.name = prompt.name;
    one.category = prompt.category;
    one.ids = encode(session, prompt, raw);
    check_fit(session, prompt, one.ids);
  }
  return encoded;
}

Json describe_subject(Session& session, const EvalBasics& basics) {
  Json json = {{"build", describe_build()}, {"model", session.choice().model.string()}};
  if (session.has_drafter()) json["drafter"] = session.choice().drafter->string();
  json["device"] = session.ops().name();
  json["isa"] = session.ops().isa();
  json["threads"] = session.ops().threads();
  json["prompt_file"] = basics.prompts.empty() ? "built-in" : basics.prompts;
  return json;
}

}  // namespace ashlar
