// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "text/tokenizer/sentencepiece/space_steps.h"
#include "text/tokenizer/sentencepiece/token_type.h"
#include "text/tokenizer/token_table.h"

namespace ashlar::text {
namespace {

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t n = std::min<size_t>(bytes.size() - at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < n ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i) out += i <= n ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

bool is_text(const SentencePieceModel::Piece& piece) { return piece.type == kNormal || piece.type == kUserDefined; }

class Conversion {
 public:
  Conversion(const SentencePieceModel& model, const Json& config, const Json& added, const std::string& file)
      : model_(model), config_(config), added_(added), file_(file) {}

  Json run() {
    refuse_others();
    index_pieces();
    const bool prefix = flag("add_prefix_space", model_.adds_prefix);
    return {{"model", model_.kind == 1 ? unigram() : bpe()},
            {"added_tokens", added_tokens()},
            {"normalizer", normalizer(prefix)},
            {"post_processor", post_processor()},
            {"decoder", space_decoder(prefix)}};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error("tokenizer", file_ + ": " + what); }

  bool flag(const char* key, bool fallback) const {
    const auto found = config_.is_object() ? config_.find(key) : config_.end();
    if (!config_.is_object() || found == config_.end() || found->is_null()) return fallback;
    if (!found->is_boolean()) fail("tokenizer_config.json: \"" + std::string(key) + "\": expected true or false");
    return found->get<bool>();
  }

  void refuse_others() const {
    if (model_.kind != 1 && model_.kind != 2) {
      fail("its trainer_spec.model_type is " + std::to_string(model_.kind) + "; expected 1 (unigram) or 2 (BPE)");
    }
    if (model_.treats_whitespace_as_suffix) fail("puts spaces after words, which is not supported");
    if (!model_.escapes_spaces) fail("leaves spaces as they are, which is not supported");
    if (model_.denormalizes) fail("maps characters when it decodes, which is not supported");
    if (!flag("legacy", true) && flag("add_prefix_space", model_.adds_prefix)) {
      fail(
          "tokenizer_config.json: \"legacy\" is false, which puts a space in front of a text's first part alone; that "
          "is "
          "read from a tokenizer.json, which transformers writes when it saves the tokenizer");
    }
  }

  void index_pieces() {
    ids_.reserve(model_.pieces.size());
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      const std::string& text = model_.pieces[id].text;
      if (!ids_.add(text, static_cast<int32_t>(id))) {
        fail("the piece " + std::to_string(id) + " is '" + for_message(text) + "', as the piece " +
             std::to_string(*ids_.find(text)) + " is");
      }
      if (model_.pieces[id].type == kUnknown && !unknown_) unknown_ = id;
    }
  }

  // Pieces with a role of their own come of no text's characters.
  Json score_of(const SentencePieceModel::Piece& piece) const {
    return is_text(piece) ? Json(piece.score) : Json(nullptr);
  }

  Json unigram() const {
    Json vocabulary = Json::array();
    for (const auto& piece : model_.pieces) vocabulary.push_back(Json::array({piece.text, score_of(piece)}));
    Json out = {{"type", "Unigram"}, {"byte_fallback", model_.byte_fallback}, {"vocab", std::move(vocabulary)}};
    if (unknown_) out["unk_id"] = *unknown_;
    return out;
  }

  Json bpe() const {
    Json all = Json::object();
    auto& vocabulary = all.get_ref<Json::object_t&>();
    Json scores = Json::array();
    vocabulary.reserve(model_.pieces.size());
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      scores.push_back(score_of(model_.pieces[id]));
      if (model_.pieces[id].type != kUnused) vocabulary.emplace_back(model_.pieces[id].text, id);
    }
    Json out = {{"type", "BPE"},
                {"byte_fallback", model_.byte_fallback},
                {"fuse_unk", true},
                {"vocab", std::move(all)},
                {"scores", std::move(scores)}};
    if (unknown_) out["unk_token"] = model_.pieces[*unknown_].text;
    return out;
  }

  // Those of the model itself: of control in a text as it comes, a user's where the spaces are written already. Then
  // what was added to it.
  Json added_tokens() const {
    std::map<uint64_t, Json> tokens;  // ids without a sign, as of a file
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const auto& piece = model_.pieces[i];
      if (piece.type != kControl && piece.type != kUserDefined) continue;
      const bool special = piece.type == kControl;
      const auto id = static_cast<uint64_t>(i);
      tokens[id] = {
          {"id", id}, {"content", piece.text}, {"special", special}, {"normalized", false}, {"literal", !special}};
    }
    if (added_.is_object()) {
      for (const auto& [content, id] : added_.items()) {
        if (!id.is_number_unsigned()) fail("added_tokens.json: the id of '" + for_message(content) + "' is no number");
        tokens[id.get<uint64_t>()] = {{"id", id}, {"content", content}, {"special", false}, {"normalized", false}};
      }
    }
    const auto described = config_.is_object() ? config_.find("added_tokens_decoder") : config_.end();
    if (config_.is_object() && described != config_.end() && described->is_object()) {
      for (const auto& [name, token] : described->items()) {
        uint64_t id = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
        if (error != std::errc() || end != name.data() + name.size() || !token.is_object()) {
          fail("tokenizer_config.json: \"added_tokens_decoder\": '" + for_message(name) + "' is no token");
        }
        if (id < model_.pieces.size() && model_.pieces[id].type == kUserDefined) {
          // The model knows better how it is found in a text, but not that it is a tag and no text, as are Gemma's.
          if (const auto special = token.find("special"); special != token.end() && *special == true) {
            tokens[id]["special"] = true;
          }
          continue;
        }
        Json& own = tokens[id] = token;
        own["id"] = id;
      }
    }
    Json all = Json::array();
    for (auto& [id, token] : tokens) all.push_back(std::move(token));
    return all;
  }

  Json normalizer(bool prefix) const {
    Json steps = Json::array();
    if (!model_.character_map.empty()) {
      steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(model_.character_map)}});
    }
    if (model_.removes_spaces) {
      // In this order: of a run of spaces the second would try each to the run's end.
      steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
      steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", "\\A +| +\\z"}}}, {"content", ""}});
    }
    return space_normalizer(std::move(steps), prefix);
  }

  Json post_processor() const {
    Json names = Json::object(), single = Json::array();
    const auto add = [&](const char* key, bool fallback, int64_t id) {
      if (!flag(key, fallback && id >= 0)) return;
      if (id < 0 || id >= static_cast<int64_t>(model_.pieces.size())) {
        fail(std::string("has no piece for the token that \"") + key + "\" asks for");
      }
      const std::string& text = model_.pieces[static_cast<size_t>(id)].text;
      names[text] = {{"ids", Json::array({static_cast<uint64_t>(id)})}};
      single.push_back({{"SpecialToken", {{"id", text}}}});
    };
    add("add_bos_token", true, model_.bos_id);
    single.push_back({{"Sequence", {{"id", "A"}}}});
    add("add_eos_token", false, model_.eos_id);
    return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", names}};
  }

  const SentencePieceModel& model_;
  const Json& config_;
  const Json& added_;
  const std::string& file_;
  TokenTable ids_;
  std::optional<size_t> unknown_;
};

}  // namespace

Json sentencepiece_tokenizer_json(const SentencePieceModel& model, const Json& config, const Json& added,
                                  const std::string& file) {
  return Conversion(model, config, added, file).run();
}

}  // namespace ashlar::text
