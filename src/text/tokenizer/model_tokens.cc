// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model_tokens.h"

#include <algorithm>

#include "io/json.h"
#include "io/weights/gguf.h"
#include "text/tokenizer/tokenizer_config.h"

namespace ashlar {
namespace {

constexpr const char* kMaskNames[] = {"<|mask|>", "<|MASK|>", "<|mdm_mask|>", "<mask>", "[MASK]"};

// The format names one token or two, and has no place for the others that a generation_config.json would name.
constexpr std::string_view kUsualEnds[] = {"<|im_end|>", "<|endoftext|>",   "<|eot_id|>",
                                           "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>"};

std::string quoted(const Tokenizer& tokenizer, int32_t id) {
  const std::string content = for_message(tokenizer.token_content(id));
  return (content.empty() ? "" : "'" + content + "' ") + "(id " + std::to_string(id) + ")";
}

}  // namespace

std::vector<int32_t> stop_ids_of(const std::filesystem::path& model, const Tokenizer& tokenizer,
                                 std::vector<int32_t> configured, int32_t vocab) {
  const auto add = [&](std::string_view content) {
    const std::optional<int32_t> id = tokenizer.token_id(content);
    const bool is_new = id && *id < vocab && std::find(configured.begin(), configured.end(), *id) == configured.end();
    if (is_new) configured.push_back(*id);
  };
  const Json tokens = read_tokenizer_config(model).special_tokens;
  if (const auto eos = tokens.find("eos_token"); eos != tokens.end()) add(eos->get_ref<const std::string&>());
  if (!is_gguf(model)) return configured;
  for (const std::string_view end : kUsualEnds) {
    const std::optional<int32_t> id = tokenizer.token_id(end);
    if (id && tokenizer.is_special(*id)) add(end);
  }
  return configured;
}

std::string note_on_tokens_beyond(const Tokenizer& tokenizer, int32_t vocab) {
  int32_t count = 0, first = -1;
  for (int32_t id = vocab; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.token_content(id).empty()) continue;
    if (count++ == 0) first = id;
  }
  if (count == 0) return "";
  const bool one = count == 1;
  return "the tokenizer has " + std::to_string(count) + (one ? " token" : " tokens") +
         " beyond the model's vocabulary of " + std::to_string(vocab) + ": " + quoted(tokenizer, first) +
         (one ? "" : " and others") + "; prompts that contain " + (one ? "it" : "them") +
         " are refused (was the embedding resized when tokens were added?)";
}

std::optional<std::string> token_beyond(const Tokenizer& tokenizer, std::span<const int32_t> prompt, int32_t vocab) {
  const auto bad = std::find_if(prompt.begin(), prompt.end(), [vocab](int32_t id) { return id < 0 || id >= vocab; });
  if (bad == prompt.end()) return std::nullopt;
  return "the prompt has the token " + quoted(tokenizer, *bad) + ", which the model has no embedding for: its " +
         std::to_string(vocab) + " tokens have the ids 0 to " + std::to_string(vocab - 1);
}

std::vector<int32_t> mask_tokens(const Tokenizer& tokenizer, int32_t vocab, const std::vector<int32_t>& stop_ids) {
  std::vector<int32_t> tokens;
  const auto add = [&](int32_t id) {
    if (id < vocab && std::find(tokens.begin(), tokens.end(), id) == tokens.end()) tokens.push_back(id);
  };
  for (const char* name : kMaskNames) {
    if (const auto id = tokenizer.token_id(name)) add(*id);
  }
  add(tokenizer.vocab_size());
  for (int32_t id = std::min(vocab, tokenizer.vocab_size()) - 1; id >= 0; --id) {
    if (!tokenizer.is_special(id) || std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end()) continue;
    add(id);
    break;
  }
  return tokens;
}

}  // namespace ashlar
