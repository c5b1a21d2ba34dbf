// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a name in tokenizer.ggml.pre stands for, in the words of a tokenizer.json: how a text is cut before byte-level
// BPE. The patterns are those of the tokenizers that the names were given to.

#include <string>
#include <string_view>

#include "io/json.h"

namespace ashlar::text {

struct GgufPreTokenizer {
  std::string_view name;
  const char* steps;  ///< pre_tokenizer of a tokenizer.json
  bool nfc = false;
  bool ignore_merges = false;
  bool adds_bos = false;  ///< where the file does not say

  Json section() const { return parse_json(steps, "built in"); }
};

/// nullptr if the name is unknown.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);
std::string gguf_pre_tokenizer_names();

}  // namespace ashlar::text
