// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tokenizer.model in the words of a tokenizer.json.

#include <string>

#include "io/json.h"
#include "text/tokenizer/sentencepiece/sentencepiece_model.h"

namespace ashlar::text {

/// The content of a tokenizer.json. `config`: the object of a tokenizer_config.json, which may say add_bos_token (true
/// where it does not), add_eos_token (false), add_prefix_space, legacy and added_tokens_decoder; `added`: that of an
/// added_tokens.json, ids by spelling; both may be null. `file` is named in errors. Throws Error("tokenizer", ...) for
/// other kinds than unigram and BPE, and what else changes ids and is not done here.
Json sentencepiece_tokenizer_json(const SentencePieceModel& model, const Json& config, const Json& added,
                                  const std::string& file);

}  // namespace ashlar::text
