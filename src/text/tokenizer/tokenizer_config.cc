// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer_config.h"

#include "base/error.h"
#include "io/mapped_file.h"
#include "text/tokenizer/gguf/gguf_tokenizer.h"

namespace ashlar {
namespace {

/// The text of a special token: a string, or an object with "content".
Json token_text(const Json& token) {
  if (token.is_object() && token.contains("content")) return token["content"];
  return token;
}

Json special_tokens_of(const Json& config) {
  Json out = Json::object();
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto it = config.find(name);
    if (it == config.end()) continue;
    if (Json text = token_text(*it); text.is_string()) out[name] = std::move(text);
  }
  const auto more = config.find("additional_special_tokens");
  if (more != config.end() && more->is_array() && !more->empty()) {
    Json list = Json::array();
    for (const Json& token : *more) list.push_back(token_text(token));
    out["additional_special_tokens"] = std::move(list);
  }
  return out;
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& model) {
  if (is_gguf(model)) return text::gguf_tokenizer_config(open_gguf_metadata(model));
  const auto path = model / "tokenizer_config.json";
  if (!file_exists(path)) return {};
  Json config = read_json_file(path, RepeatedKeys::kLastHolds);
  if (!config.is_object()) {
    throw Error("template", path.string() + ": expected a JSON object, found " + config.type_name());
  }
  TokenizerConfig out{special_tokens_of(config), nullptr};
  if (const auto it = config.find("chat_template"); it != config.end()) out.chat_template = std::move(*it);
  return out;
}

}  // namespace ashlar
