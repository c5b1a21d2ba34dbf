// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tokenizer next to the model that reads its tokens: which of them end an answer, and which the model does not have.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace ashlar {

/// `configured` (of config.json and generation_config.json) and the eos_token of the model's tokenizer_config.json,
/// unless it is among them, is no token or is not below `vocab`: tuners of a base model often name the end of a turn
/// there alone. Of a GGUF file also the special tokens that usually end an answer, such as <|im_end|>.
std::vector<int32_t> stop_ids_of(const std::filesystem::path& model, const Tokenizer& tokenizer,
                                 std::vector<int32_t> configured, int32_t vocab);

/// A sentence on the tokens from `vocab` on, which the model has no embedding for; empty when there are none.
std::string note_on_tokens_beyond(const Tokenizer& tokenizer, int32_t vocab);

/// Why a model with `vocab` tokens cannot read this prompt, for those who sent it; nothing when it can.
std::optional<std::string> token_beyond(const Tokenizer& tokenizer, std::span<const int32_t> prompt, int32_t vocab);

/// Tokens that no text becomes, the likeliest choice first: those with the name of a mask token; the first that the
/// model has and the tokenizer has not; the last special token that is none of `stop_ids`.
std::vector<int32_t> mask_tokens(const Tokenizer& tokenizer, int32_t vocab, const std::vector<int32_t>& stop_ids);

}  // namespace ashlar
