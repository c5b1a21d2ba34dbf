// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafts that cost nothing: what came the last time a sequence's newest tokens stood where they stand now (prompt
// lookup). Copies, lists and code repeat themselves; a drafter's pass is saved wherever they do.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/step.h"

namespace ashlar {

/// When a sequence's drafts are n-gram drafts instead of proposed ones.
enum class NgramUse : uint8_t {
  kNever,
  kWherePaying,  ///< where they yield more for their time; only where the width is chosen pass by pass
  kAlways,       ///< whenever there are some, as wide as may be
};

/// How often a token that is predicted by a match of a given length is the one that comes.
class NgramOdds {
 public:
  NgramOdds();
  double of(int32_t match) const { return odds_[class_of(match)]; }
  /// Moves towards what happened; `rate` is its share once much was seen.
  void learn(int32_t match, bool came, double rate);

 private:
  static constexpr size_t kClasses = 8;  // matches of 2, 3, 4, 5 and 6, up to 8, 12, 16, and more
  static size_t class_of(int32_t match);

  std::array<double, kClasses> odds_;
  std::array<int32_t, kClasses> seen_{};
};

/// The tokens of one sequence, and where its newest ones stood before.
class NgramMatcher {
 public:
  static constexpr int32_t kMinMatch = 2;  ///< tokens; one alone predicts little

  /// Begins with `tokens`; `limit`: most tokens there will ever be. Allocates; nothing else does.
  void begin(std::span<const int32_t> tokens, int32_t limit);
  /// Takes in the tokens that came, and learns how good its drafts were, whether anybody used them or not.
  void append(std::span<const int32_t> tokens, NgramOdds& common);

  /// Tokens that agree, up to some bound; 0: nothing matches.
  int32_t match() const { return match_; }
  /// What came then, and the chances that the first 1, 2, ... of it are all right. Runs on into the drafts themselves
  /// where the sequence goes in circles. A sequence begins with the `common` odds.
  void drafts(std::span<int32_t> ids, std::span<float> chances, const NgramOdds& common) const;

 private:
  uint32_t head_of(int32_t a, int32_t b) const;
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t draft(int32_t k) const { return tokens_[static_cast<size_t>(from_ + k % (size() - from_))]; }
  void push(int32_t token);
  void find();

  std::vector<int32_t> tokens_;
  // By hash of a pair of tokens, the position of its newest second token, and from each the one before it; -1: none.
  std::vector<int32_t> heads_, older_;
  int32_t match_ = 0;
  int32_t from_ = 0;       // position of the first draft
  bool has_odds_ = false;  // of its own
  NgramOdds odds_;
};

/// What the sequences of an engine had before, by slot, and the drafts of one step, by chain.
class NgramDrafts {
 public:
  /// Nothing is drafted before this is called.
  void reserve(int32_t max_slots, int32_t max_chains);
  /// A sequence begins, as in NgramMatcher::begin.
  void admit(int32_t slot, std::span<const int32_t> tokens, int32_t limit);
  void append(int32_t slot, std::span<const int32_t> tokens);

  /// N-gram drafts of `slot` for chain `chain` of this step, at most n drafts: the chances that the first 1, 2, ... of
  /// them are all right; none if nothing matches. Valid until the chain's next call.
  std::span<const float> draft(int32_t chain, int32_t slot, int32_t n);
  /// Their ids.
  std::span<const int32_t> ids(int32_t chain, int32_t n) const;

 private:
  std::vector<NgramMatcher> slots_;
  NgramOdds odds_;            // of all sequences
  std::vector<int32_t> ids_;  // kMaxWidth for each chain
  std::vector<float> chances_;
};

}  // namespace ashlar
