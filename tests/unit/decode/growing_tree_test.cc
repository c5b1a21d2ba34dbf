// SPDX-License-Identifier: Apache-2.0
// Trees that grow pass by pass against all trees there are: what may follow a token depends on its whole path, and only
// nodes that were run know it.

#include "decode/propose/growing_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace ashlar::testing {
namespace {

constexpr int32_t kLastToken = 7;  // the last token
constexpr int32_t kRanks = 3;

using GrowPath = std::vector<int32_t>;  // ids

// What may follow a path: a law of the path.
LikeliestTokens after_path(const GrowPath& path, double sharpness) {
  uint32_t seed = 17;
  for (const int32_t id : path) seed = 31 * seed + static_cast<uint32_t>(id);
  std::mt19937 random(seed);
  std::vector<double> weights;
  for (int32_t r = 0; r < kRanks; ++r) {
    weights.push_back(std::exp(sharpness * std::normal_distribution<double>()(random)));
  }
  std::sort(weights.rbegin(), weights.rend());
  double total = 0.1 * weights[0];
  for (const double weight : weights) total += weight;
  LikeliestTokens next;
  next.n = kRanks;
  for (int32_t r = 0; r < kRanks; ++r) {
    const auto at = static_cast<size_t>(r);
    next.ids[at] = static_cast<int32_t>(10 + random() % 1000 * kRanks) + r;
    next.log_chance[at] = static_cast<float>(std::log(weights[at] / total));
  }
  return next;
}

void chances_of_all(const GrowPath& path, double log_chance, int32_t depth, double sharpness,
                    std::vector<double>& chances) {
  if (depth == 0) return;
  const LikeliestTokens next = after_path(path, sharpness);
  for (int32_t r = 0; r < next.n; ++r) {
    GrowPath longer = path;
    longer.push_back(next.ids[static_cast<size_t>(r)]);
    const double chance = log_chance + next.log_chance[static_cast<size_t>(r)];
    chances.push_back(std::exp(chance));
    chances_of_all(longer, chance, depth - 1, sharpness, chances);
  }
}

double chance_of_path(const GrowPath& path, double sharpness) {
  double log_chance = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    const LikeliestTokens next = after_path({path.begin(), path.begin() + static_cast<int64_t>(i)}, sharpness);
    const auto* const at = std::find(next.ids.begin(), next.ids.begin() + next.n, path[i]);
    EXPECT_NE(at, next.ids.begin() + next.n) << "no candidate of its path";
    log_chance += next.log_chance[static_cast<size_t>(at - next.ids.begin())];
  }
  return std::exp(log_chance);
}

/// Rows run, all passes together.
int32_t grow(GrowingTree& tree, ChainSpan& span, int32_t passes, int32_t beam, double sharpness) {
  tree.begin(span.ids[0], span.width - 1, span.branches);
  for (int32_t pass = 1;; ++pass) {
    EXPECT_LE(tree.nodes().size() - tree.newest(), static_cast<size_t>(beam));
    for (size_t i = tree.newest(); i < tree.nodes().size(); ++i) {
      GrowPath path;
      for (size_t at = i; at > 0; at = static_cast<size_t>(tree.nodes()[at].parent))
        path.push_back(tree.nodes()[at].id);
      std::ranges::reverse(path);
      EXPECT_EQ(tree.nodes()[i].depth, static_cast<int32_t>(path.size()));
      tree.answer(i, after_path(path, sharpness));
    }
    if (pass == passes || !tree.grow(beam)) break;
  }
  DraftTreeBuilder().build(tree, kMaxWidth, 15, span);
  return static_cast<int32_t>(tree.nodes().size());
}

TEST(GrowingTree, IsMadeOfTheLikeliestPaths) {
  constexpr int32_t kPasses = 4;
  int32_t rows = 0, all_rows = 0, exact = 0;
  for (int round = 0; round < 200; ++round) {
    const double sharpness = 0.2 + 0.02 * round;
    std::vector<double> every;
    chances_of_all({}, 0, kPasses, sharpness, every);
    std::sort(every.rbegin(), every.rend());
    ChainSpan span;
    span.width = 2 + round % 12;
    span.branches = kMaxWidth;
    span.ids[0] = kLastToken;
    span.make_chain();
    GrowingTree tree;
    tree.reserve(kPasses, kMaxWidth);
    rows += grow(tree, span, kPasses, kMaxWidth, sharpness);
    all_rows += 1 + kRanks + kRanks * kRanks + kRanks * kRanks * kRanks;
    double sum = 0;
    for (int32_t r = 1; r < span.width; ++r) {
      GrowPath path;
      for (int32_t at = r; at > 0; at = span.parents[at]) path.insert(path.begin(), span.ids[at]);
      ASSERT_LE(path.size(), size_t{kPasses});
      sum += chance_of_path(path, sharpness);
    }
    double best = 0;
    for (int32_t k = 0; k < span.width - 1; ++k) best += every[static_cast<size_t>(k)];
    ASSERT_NEAR(sum, best, 0.021 * span.width) << round;  // branches below 2 % are not worth a table
    if (every[static_cast<size_t>(span.width) - 2] > 0.0203) {
      ASSERT_NEAR(sum, best, 1e-5) << round;
      ++exact;
    }
  }
  EXPECT_GE(exact, 20);
  EXPECT_LT(2 * rows, all_rows);  // what cannot be a draft was not run
}

TEST(GrowingTree, OneNodeAPassAndNoBranchIsAChain) {
  ChainSpan span;
  span.width = 5;
  span.ids[0] = kLastToken;
  span.make_chain();
  GrowingTree tree;
  tree.reserve(4, 1);
  EXPECT_EQ(grow(tree, span, 4, 1, 1.0), 4);
  ASSERT_EQ(span.width, 5);
  GrowPath path;
  for (int32_t r = 1; r < 5; ++r) {
    EXPECT_EQ(span.parents[r], r - 1);
    EXPECT_EQ(span.ids[r], after_path(path, 1.0).ids[0]);
    path.push_back(span.ids[r]);
  }
}

}  // namespace
}  // namespace ashlar::testing
