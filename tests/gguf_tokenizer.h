// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tokenizer.json as the metadata that llama.cpp's converter would make of it.

#include <string>
#include <vector>

#include "gguf_writer.h"
#include "io/json.h"

namespace ashlar::testing {

/// `pre`: the name of its pre-tokenizer there.
inline void write_gguf_tokenizer(const nlohmann::json& tokenizer, const std::string& pre, GgufWriter& file) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  const auto put = [&](size_t id, const std::string& content, int32_t type) {
    for (size_t i = tokens.size(); i <= id; ++i) {
      tokens.push_back("[PAD" + std::to_string(i) + "]");
      types.push_back(5);
    }
    tokens[id] = content;
    types[id] = type;
  };
  for (const auto& [content, id] : tokenizer["model"]["vocab"].items()) put(id.get<size_t>(), content, 1);
  for (const auto& token : tokenizer["added_tokens"]) {
    put(token["id"].get<size_t>(), token["content"].get<std::string>(), token["special"].get<bool>() ? 3 : 4);
  }
  std::vector<std::string> merges;
  for (const auto& merge : tokenizer["model"]["merges"]) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  file.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", pre)
      .texts("tokenizer.ggml.tokens", tokens)
      .integers("tokenizer.ggml.token_type", types)
      .texts("tokenizer.ggml.merges", merges);
}

}  // namespace ashlar::testing
