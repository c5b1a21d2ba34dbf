// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tokenizer for models of 96 tokens.

#include <string>

#include "io/json.h"

namespace ashlar::testing {

/// Each printable character is a token.
inline Json one_character_tokenizer() {
  Json vocab = Json::object();
  for (int c = '!'; c <= '~'; ++c) vocab[std::string(1, static_cast<char>(c))] = c - '!';
  vocab["\u0120"] = '~' - '!' + 1;  // a space
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", bytes},
          {"post_processor", nullptr},
          {"decoder", bytes},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

}  // namespace ashlar::testing
