// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/gguf/gguf_tokens.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr size_t kMaxGgufTextBytes = 128U << 20;  // of all tokens and merges, as of a tokenizer.json

// What `read` gives; its errors become the tokenizer's.
template <class Read>
auto as_tokenizer(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error("tokenizer", error.message());
  }
}

}  // namespace

GgufTokens::GgufTokens(const GgufFile& file)
    : file_(file), fields_(file.metadata(), file.path().string(), "tokenizer"), tokens_(strings(kTokens)) {
  if (tokens_.empty() || tokens_.size() > static_cast<size_t>(kMaxVocabulary)) {
    fail(std::string("\"") + kTokens + "\": expected from 1 to " + std::to_string(kMaxVocabulary) + " texts, found " +
         std::to_string(tokens_.size()));
  }
}

void GgufTokens::fail(const std::string& what) const { throw Error("tokenizer", file_.path().string() + ": " + what); }

std::vector<std::string_view> GgufTokens::strings(const char* key) const {
  std::vector<std::string_view> texts = as_tokenizer([&] { return file_.strings(key); });
  size_t bytes = 0;
  for (const std::string_view text : texts) {
    bytes += text.size();
    if (!is_valid_utf8(text)) fail(std::string("\"") + key + "\": '" + for_message(text) + "' is not valid UTF-8");
  }
  if (bytes > kMaxGgufTextBytes) {
    fail(std::string("\"") + key + "\": expected at most " + std::to_string(kMaxGgufTextBytes) +
         " bytes of text, found " + std::to_string(bytes));
  }
  return texts;
}

void GgufTokens::check_one_each(const char* key, size_t found) const {
  if (found == tokens_.size()) return;
  fail(std::string("\"") + key + "\": expected one for each of " + std::to_string(tokens_.size()) + " tokens, found " +
       std::to_string(found));
}

std::vector<int64_t> GgufTokens::types() const {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  if (!file_.has_array(kKey)) return std::vector<int64_t>(tokens_.size(), kNormal);
  std::vector<int64_t> types = file_.integers(kKey);
  check_one_each(kKey, types.size());
  return types;
}

std::vector<float> GgufTokens::scores() const {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  std::vector<float> scores = as_tokenizer([&] { return file_.floats(kKey); });
  check_one_each(kKey, scores.size());
  const auto bad = std::find_if(scores.begin(), scores.end(), [](float score) { return !std::isfinite(score); });
  if (bad != scores.end()) {
    fail(std::string("\"") + kKey + "\": expected finite numbers, found infinity or NaN for the token " +
         std::to_string(bad - scores.begin()));
  }
  return scores;
}

std::optional<int32_t> GgufTokens::id(const std::string& role) const {
  const std::string key = "tokenizer.ggml." + role + "_token_id";
  if (!fields_.has(key)) return std::nullopt;
  return static_cast<int32_t>(fields_.integer(key, 0, static_cast<int64_t>(tokens_.size()) - 1));
}

}  // namespace ashlar::text
