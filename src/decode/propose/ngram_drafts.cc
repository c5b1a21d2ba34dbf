// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/ngram_drafts.h"

#include <algorithm>
#include <bit>

namespace ashlar {
namespace {

constexpr int32_t kLongestMatch = 24;  // longer ones are no better
constexpr size_t kFewestHeads = 1024;  // powers of two
constexpr size_t kMaxHeads = 65536;
constexpr int32_t kMaxPlaces = 64;     // that are looked at, newest first
constexpr double kSequenceRate = 0.1;  // text of one kind: about ten drafts of a class decide
constexpr double kCommonChanceRate = 0.01;

}  // namespace

// First guesses; a hundred tokens later they are forgotten.
NgramOdds::NgramOdds() : odds_{0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95} {}

size_t NgramOdds::class_of(int32_t match) {
  constexpr std::array<int32_t, kClasses - 1> kMost = {2, 3, 4, 6, 8, 12, 16};
  return static_cast<size_t>(std::lower_bound(kMost.begin(), kMost.end(), match) - kMost.begin());
}

void NgramOdds::learn(int32_t match, bool came, double rate) {
  constexpr int32_t kGuess = 4;  // what the first guess counts for
  const size_t own = class_of(match);
  int32_t& seen = seen_[own];
  odds_[own] += std::max(rate, 1.0 / (kGuess + ++seen)) * ((came ? 1.0 : 0.0) - odds_[own]);
  seen = std::min(seen, 1 << 20);
}

uint32_t NgramMatcher::head_of(int32_t a, int32_t b) const {
  const uint32_t mixed = (static_cast<uint32_t>(a) * 0x9E3779B1U + static_cast<uint32_t>(b)) * 0x85EBCA77U;
  return (mixed >> 16 ^ mixed) & (static_cast<uint32_t>(heads_.size()) - 1);
}

void NgramMatcher::begin(std::span<const int32_t> tokens, int32_t limit) {
  const size_t room = std::max(static_cast<size_t>(std::max(limit, 0)), tokens.size());
  tokens_.clear();
  tokens_.reserve(room);
  older_.clear();
  older_.reserve(room);
  heads_.assign(std::bit_ceil(std::clamp<size_t>(room, kFewestHeads, kMaxHeads)), -1);
  has_odds_ = false;
  for (const int32_t token : tokens) push(token);
  find();
}

void NgramMatcher::push(int32_t token) {
  tokens_.push_back(token);
  const int32_t at = size() - 1;
  if (at == 0) return older_.push_back(-1);
  int32_t& head = heads_[head_of(tokens_[static_cast<size_t>(at) - 1], token)];
  older_.push_back(head);
  head = at;
}

void NgramMatcher::append(std::span<const int32_t> tokens, NgramOdds& common) {
  if (!has_odds_) odds_ = common;
  has_odds_ = true;
  bool predicted = match_ > 0;
  for (int32_t k = 0; predicted && k < static_cast<int32_t>(tokens.size()); ++k) {
    predicted = draft(k) == tokens[static_cast<size_t>(k)];
    odds_.learn(match_ + k, predicted, kSequenceRate);
    common.learn(match_ + k, predicted, kCommonChanceRate);
  }
  for (const int32_t token : tokens) push(token);
  find();
}

// The longest match, of equals the newest.
void NgramMatcher::find() {
  match_ = 0;
  const int32_t last = size() - 1;
  if (last < kMinMatch) return;
  int32_t at = older_[static_cast<size_t>(last)];
  for (int32_t place = 0; at > 0 && place < kMaxPlaces && match_ < kLongestMatch;
       ++place, at = older_[static_cast<size_t>(at)]) {
    int32_t match = 0;
    while (match < kLongestMatch && match <= at &&
           tokens_[static_cast<size_t>(at - match)] == tokens_[static_cast<size_t>(last - match)]) {
      ++match;
    }
    if (match < kMinMatch || match <= match_) continue;
    match_ = match;
    from_ = at + 1;
  }
}

void NgramMatcher::drafts(std::span<int32_t> ids, std::span<float> chances, const NgramOdds& common) const {
  const NgramOdds& odds = has_odds_ ? odds_ : common;
  double chance = 1.0;
  for (int32_t k = 0; k < static_cast<int32_t>(ids.size()); ++k) {
    chance *= odds.of(match_ + k);
    ids[static_cast<size_t>(k)] = draft(k);
    chances[static_cast<size_t>(k)] = static_cast<float>(chance);
  }
}

void NgramDrafts::reserve(int32_t max_slots, int32_t max_chains) {
  slots_.resize(static_cast<size_t>(max_slots));
  ids_.resize(static_cast<size_t>(max_chains) * kMaxWidth);
  chances_.resize(ids_.size());
}

void NgramDrafts::admit(int32_t slot, std::span<const int32_t> tokens, int32_t limit) {
  if (!slots_.empty()) slots_[static_cast<size_t>(slot)].begin(tokens, limit);
}

void NgramDrafts::append(int32_t slot, std::span<const int32_t> tokens) {
  if (!slots_.empty() && !tokens.empty()) slots_[static_cast<size_t>(slot)].append(tokens, odds_);
}

std::span<const float> NgramDrafts::draft(int32_t chain, int32_t slot, int32_t n) {
  if (slots_.empty() || n < 1 || slots_[static_cast<size_t>(slot)].match() == 0) return {};
  const size_t room = static_cast<size_t>(chain) * kMaxWidth;
  const std::span<float> chances(chances_.data() + room, static_cast<size_t>(n));
  slots_[static_cast<size_t>(slot)].drafts({ids_.data() + room, static_cast<size_t>(n)}, chances, odds_);
  return chances;
}

std::span<const int32_t> NgramDrafts::ids(int32_t chain, int32_t n) const {
  return {ids_.data() + static_cast<size_t>(chain) * kMaxWidth, static_cast<size_t>(n)};
}

}  // namespace ashlar
