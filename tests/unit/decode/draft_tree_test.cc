// SPDX-License-Identifier: Apache-2.0
// Trees of drafts against all trees there are, and rows that say what the tree is.

#include "decode/propose/draft_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace ashlar::testing {
namespace {

class FixedCandidates final : public CandidateSource {
 public:
  explicit FixedCandidates(std::vector<LikeliestTokens> candidates) : FixedCandidates(std::move(candidates), 1) {}
  /// Those of a depth lie together: one for each rank (id % 100) that the token before may have, or one for all.
  FixedCandidates(std::vector<LikeliestTokens> candidates, int32_t of_depth)
      : candidates_(std::move(candidates)), of_depth_(of_depth) {}
  const LikeliestTokens& at(int32_t depth, int32_t before) override {
    deepest_asked = std::max(deepest_asked, depth);
    return candidates_.at(static_cast<size_t>((depth - 1) * of_depth_ + before % 100 % of_depth_));
  }
  int32_t depth() const { return static_cast<int32_t>(candidates_.size()) / of_depth_; }
  int32_t deepest_asked = 0;

 private:
  std::vector<LikeliestTokens> candidates_;
  int32_t of_depth_;
};

// Ids say position and rank: 100 * depth + rank. `of_depth`: sets of candidates that a position has.
FixedCandidates random_candidates(std::mt19937& random, int32_t depth, int32_t n, double sharpness,
                                  int32_t of_depth = 1) {
  std::vector<LikeliestTokens> all;
  for (int32_t i = 0; i < depth * of_depth; ++i) {
    const int32_t d = i / of_depth + 1;
    std::vector<double> weights;
    for (int32_t r = 0; r < n; ++r) weights.push_back(std::exp(sharpness * std::normal_distribution<double>()(random)));
    std::sort(weights.rbegin(), weights.rend());
    double total = weights[0] * 0.1;
    for (const double weight : weights) total += weight;
    LikeliestTokens& candidates = all.emplace_back();
    candidates.n = n;
    for (int32_t r = 0; r < n; ++r) {
      const auto at = static_cast<size_t>(r);
      candidates.ids[at] = 100 * d + r;
      candidates.log_chance[at] = static_cast<float>(std::log(weights[at] / total));
    }
  }
  return {std::move(all), of_depth};
}

constexpr int32_t kLast = 7;  // the last token

ChainSpan span_of(int32_t width, int32_t branches) {
  ChainSpan span;
  span.width = width;
  span.branches = branches;
  span.ids[0] = kLast;
  span.make_chain();
  return span;
}

using Path = std::vector<int32_t>;  // ids

Path path_of(const ChainSpan& span, int32_t row) {
  Path path;
  for (int32_t r = row; r > 0; r = span.parents[r]) path.insert(path.begin(), span.ids[r]);
  return path;
}

double chance_of(FixedCandidates& candidates, const Path& path) {
  double log_chance = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    const int32_t before = i == 0 ? kLast : path[i - 1];
    log_chance += candidates.at(static_cast<int32_t>(i) + 1, before).log_chance[static_cast<size_t>(path[i] % 100)];
  }
  return std::exp(log_chance);
}

void all_paths(FixedCandidates& candidates, const Path& begin, std::vector<double>& chances) {
  if (static_cast<int32_t>(begin.size()) == candidates.depth()) return;
  const auto depth = static_cast<int32_t>(begin.size()) + 1;
  for (int32_t r = 0; r < candidates.at(depth, begin.empty() ? kLast : begin.back()).n; ++r) {
    Path path = begin;
    path.push_back(100 * depth + r);
    chances.push_back(chance_of(candidates, path));
    all_paths(candidates, path, chances);
  }
}

TEST(DraftTree, IsMadeOfTheLikeliestPaths) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    // Every other round, what a token is followed by depends on it.
    FixedCandidates candidates = random_candidates(random, 4, 3, 0.2 + 0.02 * round, round % 2 == 0 ? 1 : 3);
    std::vector<double> every;
    all_paths(candidates, {}, every);
    std::sort(every.rbegin(), every.rend());
    ChainSpan span = span_of(2 + round % 12, kMaxWidth);
    DraftTreeBuilder().build(candidates, 4, 15, span);
    double sum = 0;
    for (int32_t r = 1; r < span.width; ++r) sum += chance_of(candidates, path_of(span, r));
    double best = 0;  // of as many, but branches below 2 % are not worth a table
    for (int32_t k = 0; k < span.width - 1; ++k) best += every[static_cast<size_t>(k)];
    ASSERT_NEAR(sum, best, 0.021 * span.width) << round;
    if (every[static_cast<size_t>(span.width) - 2] > 0.0203) {
      ASSERT_NEAR(sum, best, 1e-5) << round;
    }
  }
}

TEST(DraftTree, RowsStandDepthFirstAndChancesAreThoseOfTheirPaths) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    const int32_t width = 2 + round % 15;
    FixedCandidates candidates = random_candidates(random, width - 1, 5, 1.0, round % 2 == 0 ? 1 : 5);
    const int32_t branches = round % 5;
    ChainSpan span = span_of(width, branches);
    DraftTreeBuilder().build(candidates, width - 1, 15, span);
    ASSERT_EQ(span.ids[0], kLast);
    ASSERT_EQ(span.width, width);  // a chain can always go on
    std::set<Path> seen;
    std::set<int32_t> open = {0};  // rows on the path to the row before
    int32_t begun = 0;
    for (int32_t r = 1; r < span.width; ++r) {
      ASSERT_LT(span.parents[r], r);
      ASSERT_TRUE(open.count(span.parents[r])) << "not depth first";
      begun += span.parents[r] != r - 1 ? 1 : 0;
      open = {0};
      for (int32_t a = r; a > 0; a = span.parents[a]) open.insert(a);
      ASSERT_TRUE(seen.insert(path_of(span, r)).second) << "twice";
    }
    ASSERT_LE(begun, branches);
    // What is predicted comes in order, and what has a row is that row's path.
    std::set<int32_t> rows;
    for (int32_t k = 1; k <= span.n_chances; ++k) {
      if (k > 1) {
        ASSERT_LE(span.chances[k], span.chances[k - 1] * 1.00001);
      }
      if (span.order[k] == 0) continue;
      rows.insert(span.order[k]);
      ASSERT_NEAR(span.chances[k], chance_of(candidates, path_of(span, span.order[k])), 1e-5);
    }
    ASSERT_EQ(static_cast<int32_t>(rows.size()), span.width - 1);
  }
}

TEST(DraftTree, KeepsItsLikeliestPaths) {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    FixedCandidates candidates = random_candidates(random, 15, 5, 1.0);
    ChainSpan whole = span_of(16, 4);
    DraftTreeBuilder().build(candidates, 15, 15, whole);
    const int32_t n = 1 + round % 17;
    ChainSpan less = whole;
    less.keep_likeliest(n);
    ChainSpan built = span_of(n, 4);
    if (n > 1 && n < 16) {
      DraftTreeBuilder().build(candidates, 15, 15, built);
      ASSERT_EQ(less.width, n);
      for (int32_t r = 1; r < n; ++r) {
        ASSERT_EQ(less.ids[r], built.ids[r]);
        ASSERT_EQ(less.parents[r], built.parents[r]);
      }
      for (int32_t k = 1; k <= less.n_chances; ++k) ASSERT_EQ(less.order[k], k < n ? built.order[k] : 0);
    } else {
      ASSERT_EQ(less.width, n == 1 ? 1 : 16);
    }
    ASSERT_NEAR(less.expected(), n == 1 ? 0 : n < 16 ? built.expected() : whole.expected(), 1e-6);
  }
}

TEST(DraftTree, WithoutBranchesIsTheChainOfBestTokens) {
  std::mt19937 random(7);
  FixedCandidates candidates = random_candidates(random, 9, 4, 1.0);
  ChainSpan span = span_of(10, 0);
  DraftTreeBuilder().build(candidates, 9, 15, span);
  for (int32_t r = 1; r < 10; ++r) {
    EXPECT_EQ(span.ids[r], 100 * r);
    EXPECT_EQ(span.parents[r], r - 1);
  }
  EXPECT_EQ(span.n_chances, 15);  // as if it went on
}

TEST(DraftTree, AsksForNoPositionThatItDoesNotReach) {
  std::mt19937 random(8);
  FixedCandidates candidates = random_candidates(random, 15, 8, 0.0);  // nothing is likely: a bush
  ChainSpan span = span_of(4, 8);
  DraftTreeBuilder().build(candidates, 15, 15, span);
  EXPECT_LE(candidates.deepest_asked, 4);
}

TEST(DraftTree, EndsWhereThereAreNoCandidates) {
  std::vector<LikeliestTokens> few(3);
  few[0].n = 1;
  few[0].ids[0] = 100;
  ChainSpan span = span_of(4, 3);
  FixedCandidates candidates(few);
  DraftTreeBuilder().build(candidates, 3, 15, span);
  EXPECT_EQ(span.width, 2);
  FixedCandidates none(std::vector<LikeliestTokens>(3));
  span = span_of(4, 3);
  DraftTreeBuilder().build(none, 3, 15, span);
  EXPECT_EQ(span.width, 1);
  EXPECT_EQ(span.n_chances, 0);
}

TEST(DraftTree, SparePagesHoldTheRowsOfAFewTrees) {
  EXPECT_EQ(branch_pages(0, 16, 100), 0);
  EXPECT_EQ(branch_pages(3, 16, 1), 16 / kScratchSlotsPerPage);
  EXPECT_EQ(branch_pages(3, 5, 1), 1);
  EXPECT_EQ(branch_pages(3, 16, 1000), branch_pages(3, 16, 16));
}

}  // namespace
}  // namespace ashlar::testing
