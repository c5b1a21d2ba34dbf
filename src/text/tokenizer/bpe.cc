// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/bpe.h"

#include <cstdio>

#include "base/error.h"
#include "io/json.h"
#include "text/tokenizer/pattern/byte_alphabet.h"
#include "text/tokenizer/scored_merges.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

void refuse_dropout(const JsonNode& model) {
  if (const auto dropout = model.find("dropout")) {
    if (!dropout->raw().is_number() || dropout->raw().get<double>() != 0.0) {
      dropout->fail("BPE dropout makes encoding random; it is for training only and must be null here");
    }
  }
}

// The two parts of merges[index], which is ["a", "b"] or "a b".
std::pair<std::string_view, std::string_view> merge_parts(const JsonNode& merges, size_t index) {
  const Json& merge = merges.raw()[index];
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (merge.is_string()) {
    const std::string_view line = merge.get_ref<const std::string&>();
    const size_t space = line.find(' ');
    if (space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos) {
      return {line.substr(0, space), line.substr(space + 1)};
    }
  }
  merges.fail("entry " + std::to_string(index) + " is neither [\"left\", \"right\"] nor \"left right\"");
}

}  // namespace

Bpe::Bpe(const JsonNode& model, bool byte_level)
    : byte_level_(byte_level),
      ignore_merges_(model.flag_or("ignore_merges", false)),
      byte_fallback_(model.flag_or("byte_fallback", false)),
      fuse_unknown_(model.flag_or("fuse_unk", false)),
      prefix_(model.text_or("continuing_subword_prefix", "")),
      suffix_(model.text_or("end_of_word_suffix", "")),
      has_unknown_(model.has("unk_token")),
      cache_(std::make_unique<WordCache>()) {
  refuse_dropout(model);
  read_vocabulary(model.at("vocab"));
  if (const auto scores = model.find("scores")) {
    merges_ = merges_of_scores(*scores, vocabulary_);
  } else {
    read_merges(model.at("merges"));
  }
  if (has_unknown_) unknown_ = find(model.text("unk_token")).value_or(-1);
  index_units();
}

void Bpe::read_vocabulary(const JsonNode& node) {
  if (!node.raw().is_object()) node.fail(std::string("an object was expected, found ") + node.raw().type_name());
  constexpr size_t kFree = SIZE_MAX;
  std::vector<size_t> owner;  // by id: the token's place in the table
  vocabulary_.reserve(node.raw().size());
  for (const auto& [spelling, value] : node.raw().items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(kMaxVocabulary)) {
      node.fail("the id of '" + for_message(spelling) + "' must be a whole number below " +
                std::to_string(kMaxVocabulary) + ", found " + for_message(value.dump()));
    }
    const auto id = value.get<int32_t>();
    if (owner.size() <= static_cast<size_t>(id)) owner.resize(static_cast<size_t>(id) + 1, kFree);
    if (!vocabulary_.add(spelling, id)) continue;
    if (owner[id] != kFree) {
      node.fail("the id " + std::to_string(id) + " belongs to both '" + for_message(vocabulary_[owner[id]].spelling) +
                "' and '" + for_message(spelling) + "'");
    }
    owner[id] = vocabulary_.size() - 1;
  }
}

void Bpe::read_merges(const JsonNode& node) {
  if (!node.raw().is_array()) node.fail(std::string("an array was expected, found ") + node.raw().type_name());
  const size_t count = node.raw().size();
  merges_.reserve(count);
  const auto required = [&](std::string_view spelling, size_t index) {
    if (const auto id = find(spelling)) return *id;
    node.fail("entry " + std::to_string(index) + " needs the token '" + for_message(spelling) +
              "', which the vocabulary lacks");
  };
  std::string merged;
  for (size_t i = 0; i < count; ++i) {
    const Json& merge = node.raw()[i];
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = merge_parts(node, i);
    const int32_t left_id = required(left, i);
    const int32_t right_id = required(right, i);
    if (right.size() < prefix_.size()) {
      node.fail("entry " + std::to_string(i) + ": its right part is shorter than continuing_subword_prefix");
    }
    merged = left;
    merged += right.substr(prefix_.size());
    merges_.add(left_id, right_id, {static_cast<uint32_t>(i), required(merged, i)});
  }
}

void Bpe::index_units() {
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    const bool is_unit = byte_level_ || byte < 0x80;
    byte_units_[byte] = is_unit ? find(unit_spelling({&raw, 1})).value_or(-1) : -1;
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    byte_tokens_[byte] = find(name).value_or(-1);
  }
  if (!byte_level_ || !ignore_merges_) return;
  for (size_t i = 0; i < vocabulary_.size(); ++i) {
    const auto [spelling, id] = vocabulary_[i];
    if (const auto bytes = bytes_of_spelling(spelling)) words_.add(*bytes, id);
  }
}

std::string Bpe::unit_spelling(std::string_view unit) const {
  return byte_level_ ? byte_alphabet()[static_cast<unsigned char>(unit[0])] : std::string(unit);
}

int32_t Bpe::unit_id(std::string_view unit, bool first, bool last) const {
  const bool decorated = (!first && !prefix_.empty()) || (last && !suffix_.empty());
  if (!decorated && unit.size() == 1) return byte_units_[static_cast<unsigned char>(unit[0])];
  std::string spelling = unit_spelling(unit);
  if (!first) spelling.insert(0, prefix_);
  if (last) spelling += suffix_;
  return find(spelling).value_or(-1);
}

bool Bpe::append_byte_tokens(std::string_view unit, bool first, bool last, std::vector<int32_t>& symbols) const {
  const std::string spelling = (first ? "" : prefix_) + unit_spelling(unit) + (last ? suffix_ : "");
  for (const char c : spelling) {
    if (byte_tokens_[static_cast<unsigned char>(c)] < 0) return false;
  }
  for (const char c : spelling) symbols.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
  return true;
}

void Bpe::split_units(std::string_view piece, std::vector<int32_t>& symbols) const {
  // The unknown token is held back until the next known unit, so that fuse_unk can extend it; byte tokens pass it by.
  // That order is the reference implementation's, and the ids depend on it.
  bool unknown_waits = false;
  for (size_t at = 0; at < piece.size();) {
    const size_t length = byte_level_ ? 1 : utf8_at(piece, at).length;
    const std::string_view unit = piece.substr(at, length);
    const bool first = at == 0;
    at += length;
    const bool last = at == piece.size();
    const int32_t id = unit_id(unit, first, last);
    if (id >= 0) {
      if (unknown_waits) symbols.push_back(unknown_);
      unknown_waits = false;
      symbols.push_back(id);
      continue;
    }
    if (byte_fallback_ && append_byte_tokens(unit, first, last, symbols)) continue;
    if (!has_unknown_) continue;
    if (unknown_ < 0) throw Error("tokenizer", "the text needs the unknown token, which the vocabulary lacks");
    if (unknown_waits && !fuse_unknown_) symbols.push_back(unknown_);
    unknown_waits = true;
  }
  if (unknown_waits) symbols.push_back(unknown_);
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  if (ignore_merges_) {
    const TokenTable& words = byte_level_ ? words_ : vocabulary_;
    if (const auto found = words.find(piece)) {
      ids.push_back(*found);
      return;
    }
  }
  const uint64_t key = WordCache::hash(piece);
  if (cache_->find(key, piece, ids)) return;
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  split_units(piece, symbols);
  merges_.apply(symbols);
  const size_t from = ids.size();
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  cache_->insert(key, piece, ids, from);
}

}  // namespace ashlar::text
