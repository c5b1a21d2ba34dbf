// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model says of its tokenizer besides tokenizer.json: tokenizer_config.json, or the metadata of a GGUF file.

#include <filesystem>

#include "io/json.h"

namespace ashlar {

struct TokenizerConfig {
  /// An object of the tokens that have a role: bos_token, eos_token, ... are strings, additional_special_tokens a list.
  Json special_tokens = Json::object();
  /// As it stands in the file: a text, or a list of {name, template}; null when there is none.
  Json chat_template;
};

/// Of a folder, or of a GGUF file. Empty when the folder has no such file, which may have 64 MiB. Throws Error that
/// names the file and the field.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& model);

}  // namespace ashlar
