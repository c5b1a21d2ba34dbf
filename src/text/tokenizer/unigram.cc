// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

constexpr size_t kMaxToken = 256;  // bytes; each start of a token in a text may read as many; those in use have 93
constexpr double kUnknownPenalty = 10;

unsigned char byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

}  // namespace

struct Unigram::Step {
  double score = 0;     // of the whole way here
  uint32_t length = 0;  // of its last token; 0: no way ends here
  int32_t id = 0;
};

Unigram::Unigram(const JsonNode& model)
    : byte_fallback_(model.flag_or("byte_fallback", false)), cache_(std::make_unique<WordCache>()) {
  const JsonNode node = model.at("vocab");
  const Json& entries = node.raw();
  if (!entries.is_array()) node.fail(std::string("an array was expected, found ") + entries.type_name());
  node.check_size(static_cast<size_t>(kMaxVocabulary));
  if (entries.empty()) node.fail("is empty; expected a token at least");
  double least = 0;
  vocabulary_.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const Json& entry = entries[i];
    const auto fail = [&](const std::string& what) { node.fail("entry " + std::to_string(i) + " " + what); };
    const bool takes_part = entry.is_array() && entry.size() == 2 && !entry[1].is_null();
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || (takes_part && !entry[1].is_number())) {
      fail("is not [spelling, score]");
    }
    const auto& spelling = entry[0].get_ref<const std::string&>();
    if (spelling.empty() || spelling.size() > kMaxToken) {
      fail("has " + std::to_string(spelling.size()) + " bytes; expected 1 to " + std::to_string(kMaxToken));
    }
    const auto score = takes_part ? entry[1].get<double>() : 0.0;
    if (!std::isfinite(score)) fail("has a score that is not finite");
    if (!vocabulary_.add(spelling, static_cast<int32_t>(i))) {
      fail("is '" + for_message(spelling) + "', as entry " + std::to_string(*vocabulary_.find(spelling)) + " is");
    }
    if (!takes_part) continue;
    least = tokens_.empty() ? score : std::min(least, score);
    tokens_.push_back({{}, score, static_cast<int32_t>(i)});
  }
  if (model.has("unk_id")) {
    unknown_ = static_cast<int32_t>(model.index("unk_id", static_cast<int64_t>(entries.size())));
  }
  unknown_score_ = least - kUnknownPenalty;
  for (Token& token : tokens_) {
    token.spelling = vocabulary_[static_cast<size_t>(token.id)].spelling;  // which stay from here on
  }
  std::ranges::sort(tokens_, {}, &Token::spelling);
  for (const Token& token : tokens_) ++first_bytes_[size_t{byte_at(token.spelling, 0)} + 1];
  for (size_t byte = 0; byte < 256; ++byte) {
    first_bytes_[byte + 1] += first_bytes_[byte];
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02zX>", byte);
    byte_tokens_[byte] = vocabulary_.find(name).value_or(-1);
  }
}

// Every token that `text` (not empty) begins with, shortest first. Tokens whose first bytes are those of the text are a
// range, which each byte more makes narrower.
template <class Found>
void Unigram::for_each_prefix(std::string_view text, const Found& found) const {
  const unsigned char first = byte_at(text, 0);
  auto begin = tokens_.begin() + first_bytes_[first];
  auto end = tokens_.begin() + first_bytes_[size_t{first} + 1];
  for (size_t length = 1; begin != end; ++length) {
    if (begin->spelling.size() == length) found(*begin++);
    if (length == text.size()) return;
    const auto byte = [length](const Token& token) { return byte_at(token.spelling, length); };
    std::tie(begin, end) = std::pair{std::ranges::lower_bound(begin, end, byte_at(text, length), {}, byte),
                                     std::ranges::upper_bound(begin, end, byte_at(text, length), {}, byte)};
  }
}

std::vector<Unigram::Step> Unigram::best_ways(std::string_view piece) const {
  std::vector<Step> steps(piece.size() + 1);
  for (size_t at = 0; at < piece.size();) {
    const double here = steps[at].score;
    const size_t character = utf8_at(piece, at).length;
    bool is_token = false;
    const auto offer = [&](size_t length, double score, int32_t id) {
      Step& step = steps[at + length];
      if (step.length == 0 || here + score > step.score) step = {here + score, static_cast<uint32_t>(length), id};
    };
    for_each_prefix(piece.substr(at), [&](const Token& token) {
      offer(token.spelling.size(), token.score, token.id);
      is_token |= token.spelling.size() == character;
    });
    if (!is_token) offer(character, unknown_score_, unknown_.value_or(-1));
    at += character;
  }
  return steps;
}

void Unigram::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  int32_t whole = -1;
  for_each_prefix(text, [&](const Token& token) { whole = token.spelling.size() == text.size() ? token.id : -1; });
  if (whole >= 0) return ids.push_back(whole);
  const auto has_token = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)] >= 0; };
  if (byte_fallback_ && std::ranges::all_of(text, has_token)) {
    for (const char c : text) ids.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
    return;
  }
  if (!unknown_) throw Error("tokenizer", "the text needs the unknown token, which the vocabulary lacks");
  ids.push_back(*unknown_);
}

void Unigram::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  const uint64_t key = WordCache::hash(piece);
  if (cache_->find(key, piece, ids)) return;
  const std::vector<Step> steps = best_ways(piece);
  struct Range {
    size_t begin, end;
    int32_t id;
  };
  std::vector<Range> ranges;  // of tokens, from the last; unknown neighbours are one
  const int32_t unknown = unknown_.value_or(-1);
  for (size_t end = piece.size(); end > 0;) {
    const size_t begin = end - steps[end].length;
    const int32_t id = steps[end].id;
    if (id == unknown && !ranges.empty() && ranges.back().id == unknown) {
      ranges.back().begin = begin;
    } else {
      ranges.push_back({begin, end, id});
    }
    end = begin;
  }
  const size_t from = ids.size();
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    if (range->id != unknown) {
      ids.push_back(range->id);
    } else {
      append_unknown(piece.substr(range->begin, range->end - range->begin), ids);
    }
  }
  cache_->insert(key, piece, ids, from);
}

}  // namespace ashlar::text
