// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/gguf/gguf_pre_tokenizers.h"
#include "text/tokenizer/gguf/gguf_tokens.h"
#include "text/tokenizer/sentencepiece/space_steps.h"
#include "text/tokenizer/token_table.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

constexpr const char* kAddSpacePrefix = "tokenizer.ggml.add_space_prefix";
constexpr size_t kMaxMerges = 4 * static_cast<size_t>(kMaxVocabulary);

// Vocabulary and added tokens. Unused tokens are rows of the embedding that no text has.
void add_vocabulary(const GgufTokens& tokens, const std::vector<int64_t>& types, Json& root) {
  Json all = Json::object();
  auto& vocabulary = all.get_ref<Json::object_t&>();
  Json added = Json::array();
  TokenTable seen;
  seen.reserve(types.size());
  vocabulary.reserve(types.size());
  for (size_t id = 0; id < types.size(); ++id) {
    std::string content(tokens.all()[id]);
    if (types[id] == kUnused) continue;
    if (types[id] < kNormal || types[id] > kByte) {
      tokens.fail("\"tokenizer.ggml.token_type\": expected a number from 1 to 6, found " + std::to_string(types[id]) +
                  " for the token " + std::to_string(id));
    }
    if (!seen.add(content, static_cast<int32_t>(id))) {
      tokens.fail("\"tokenizer.ggml.tokens\": '" + for_message(content) + "' is there twice");
    }
    if (types[id] == kControl || types[id] == kUserDefined) {
      added.push_back({{"id", id}, {"content", content}, {"special", types[id] == kControl}, {"normalized", false}});
    }
    vocabulary.emplace_back(std::move(content), id);
  }
  root["model"]["vocab"] = std::move(all);
  root["added_tokens"] = std::move(added);
}

void add_merges(const GgufTokens& tokens, Json& root) {
  const std::vector<std::string_view> merges = tokens.strings("tokenizer.ggml.merges");
  if (merges.size() > kMaxMerges) {
    tokens.fail("\"tokenizer.ggml.merges\": expected at most " + std::to_string(kMaxMerges) + ", found " +
                std::to_string(merges.size()));
  }
  root["model"]["merges"] = merges;
}

// Tokens put around a text.
Json post_processor(const GgufTokens& tokens, bool adds_bos) {
  Json names = Json::object();
  Json single = Json::array();
  const auto add = [&](const char* flag, const char* role, bool fallback) {
    if (!tokens.fields().boolean(flag, fallback)) return;
    const auto id = tokens.id(role);
    if (!id) {
      tokens.fields().fail(std::string("tokenizer.ggml.") + role + "_token_id",
                           std::string("a token, which ") + flag + " asks for");
    }
    names[tokens.text(*id)] = {{"ids", Json::array({static_cast<uint32_t>(*id)})}};
    single.push_back({{"SpecialToken", {{"id", tokens.text(*id)}}}});
  };
  add("tokenizer.ggml.add_bos_token", "bos", adds_bos);
  single.push_back({{"Sequence", {{"id", "A"}}}});
  add("tokenizer.ggml.add_eos_token", "eos", false);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", names}};
}

void refuse_space_prefix(const GgufTokens& tokens) {
  if (tokens.fields().boolean(kAddSpacePrefix, false)) {
    tokens.fields().fail(kAddSpacePrefix, "false where there are merges");
  }
}

Json byte_level_bpe(const GgufTokens& tokens) {
  refuse_space_prefix(tokens);
  const std::string expected = "one of " + gguf_pre_tokenizer_names();
  const char* key = "tokenizer.ggml.pre";
  if (!tokens.fields().has(key)) tokens.fields().fail(key, expected + " (an old file: convert the model again)");
  const GgufPreTokenizer* pre = find_gguf_pre_tokenizer(tokens.fields().string(key));
  if (pre == nullptr) tokens.fields().fail(key, expected);
  Json root{{"model", {{"type", "BPE"}, {"ignore_merges", pre->ignore_merges}}},
            {"pre_tokenizer", pre->section()},
            {"post_processor", post_processor(tokens, pre->adds_bos)},
            {"decoder", {{"type", "ByteLevel"}}}};
  add_vocabulary(tokens, tokens.types(), root);
  add_merges(tokens, root);
  if (pre->nfc) root["normalizer"] = {{"type", "NFC"}};
  return root;
}

// What the kinds made from SentencePiece share: a space is a character like any other, and what the vocabulary lacks is
// bytes.
Json spaces_and_bytes(const GgufTokens& tokens, const std::vector<int64_t>& types, bool adds_prefix) {
  Json root{{"model", {{"type", "BPE"}, {"byte_fallback", true}, {"fuse_unk", true}}},
            {"normalizer", space_normalizer(Json::array(), adds_prefix)},
            {"decoder", space_decoder(adds_prefix)},
            {"post_processor", post_processor(tokens, /*adds_bos=*/true)}};
  add_vocabulary(tokens, types, root);
  const auto unknown = tokens.id("unknown");
  if (unknown && types[static_cast<size_t>(*unknown)] != kUnused) root["model"]["unk_token"] = tokens.text(*unknown);
  return root;
}

// SentencePiece merges what makes the likeliest token, and has no list of merges.
Json scored_bpe(const GgufTokens& tokens) {
  const std::vector<int64_t> types = tokens.types();
  const std::vector<float> scores = tokens.scores();
  Json root = spaces_and_bytes(tokens, types, tokens.fields().boolean(kAddSpacePrefix, true));
  // Tokens with a role of their own come of no text's characters.
  Json& stored = root["model"]["scores"] = Json::array();
  for (size_t id = 0; id < scores.size(); ++id) {
    const bool is_text = types[id] == kNormal || types[id] == kUserDefined;
    stored.push_back(is_text ? Json(scores[id]) : Json(nullptr));
  }
  return root;
}

Json gemma4_bpe(const GgufTokens& tokens) {
  refuse_space_prefix(tokens);
  Json root = spaces_and_bytes(tokens, tokens.types(), false);
  root["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "\\n+"}}}};
  add_merges(tokens, root);
  return root;
}

struct Kind {
  const char* name;  ///< tokenizer.ggml.model
  Json (*read)(const GgufTokens& tokens);
};
constexpr Kind kKinds[] = {{"gpt2", byte_level_bpe}, {"llama", scored_bpe}, {"gemma4", gemma4_bpe}};

}  // namespace

Json gguf_tokenizer_json(const GgufFile& file) {
  const GgufTokens tokens(file);
  const char* key = "tokenizer.ggml.model";
  const std::string name = tokens.fields().string(key);
  const auto* kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&name](const Kind& known) { return name == known.name; });
  if (kind == std::end(kKinds)) {
    tokens.fields().fail(key,
                         "gpt2 (byte-level BPE), llama (SentencePiece BPE) or gemma4 (of other kinds take the "
                         "Hugging Face folder)");
  }
  return kind->read(tokens);
}

TokenizerConfig gguf_tokenizer_config(const GgufFile& file) {
  const GgufTokens tokens(file);
  TokenizerConfig out;
  constexpr std::pair<const char*, const char*> kRoles[] = {
      {"bos", "bos_token"},     {"eos", "eos_token"}, {"unknown", "unk_token"}, {"seperator", "sep_token"},
      {"padding", "pad_token"}, {"cls", "cls_token"}, {"mask", "mask_token"}};
  for (const auto& [role, name] : kRoles) {
    if (const auto id = tokens.id(role)) out.special_tokens[name] = tokens.text(*id);
  }
  constexpr const char* kTemplate = "tokenizer.chat_template";
  Json templates = Json::array();
  const auto add = [&](const std::string& name, const std::string& key) {
    const std::string source = tokens.fields().string(key);
    if (!is_valid_utf8(source)) tokens.fail("\"" + key + "\": is not valid UTF-8");
    templates.push_back({{"name", name}, {"template", source}});
  };
  if (tokens.fields().has(kTemplate)) add("default", kTemplate);
  if (file.has_array("tokenizer.chat_templates")) {
    for (const std::string_view name : tokens.strings("tokenizer.chat_templates")) {
      add(std::string(name), std::string(kTemplate) + "." + std::string(name));
    }
  }
  if (!templates.empty()) out.chat_template = std::move(templates);
  return out;
}

}  // namespace ashlar::text
