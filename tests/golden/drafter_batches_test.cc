// SPDX-License-Identifier: Apache-2.0
// Heads of drafters on several blocks at once: each gets what it gets alone. Invariant: row-invariance.

#include <gtest/gtest.h>

#include <random>

#include "device/device.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "model/drafters/dflash.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kRows[] = {5, 2, 4};  // of three blocks
constexpr int32_t kAll = 11, kBlocks = 3;

class DrafterBatches : public ::testing::TestWithParam<std::string> {
 protected:
  explicit DrafterBatches(const std::string& name)
      : drafter_(DflashDrafter::load(*model_, SeededCheckpoint(data_folder() / "drafters" / name).folder())) {
    std::normal_distribution<float> normal(0, 1);
    for (std::vector<float>* values : {&hidden_, &logits_, &features_}) {
      for (float& value : *values) value = (values == &logits_ ? 3 : 1) * normal(random_);
    }
    for (int32_t i = 0; i < kAll; ++i) tokens_.push_back(static_cast<int32_t>(random_() % kVocab));
  }
  static Tensor rows(std::vector<float>& of, int32_t cols, int32_t first, int32_t n) {
    return {of.data() + static_cast<std::ptrdiff_t>(first) * cols, n, cols, cols};
  }

  static constexpr int32_t kHidden = 64, kVocab = 96;
  std::mt19937 random_{5};
  SeededCheckpoint target_{data_folder() / "families" / "qwen3"};
  std::unique_ptr<Ops> ops_ = make_device(GetParam(), {.threads = 2, .isa = {}});
  std::unique_ptr<Model> model_ = Model::load(*ops_, target_.folder(), 32);
  std::unique_ptr<DflashDrafter> drafter_;
  std::vector<float> hidden_ = std::vector<float>(kAll * kHidden), logits_ = std::vector<float>(kAll * kVocab),
                     features_ = std::vector<float>(kBlocks * kHidden);
  std::vector<int32_t> tokens_;
};

class LatticeBatches : public DrafterBatches {
 protected:
  LatticeBatches() : DrafterBatches("lilicorr") { drafter_->selector()->reserve(*ops_, kAll); }
};
class DominoBatches : public DrafterBatches {
 protected:
  DominoBatches() : DrafterBatches("domino") { drafter_->in_turn()->reserve(*ops_, kBlocks); }
};
INSTANTIATE_TEST_SUITE_P(Devices, LatticeBatches, ::testing::Values("ref", "cpu"),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Devices, DominoBatches, ::testing::Values("ref", "cpu"),
                         [](const auto& test) { return test.param; });

TEST_P(LatticeBatches, ScoreEachBlockAsItIs) {
  CandidateHead& head = *drafter_->selector();
  const int32_t n = head.candidates();
  std::vector<std::vector<float>> alone;
  std::vector<CandidateRows::Begin> begins;
  int32_t first = 0;
  for (int32_t block = 0; block < kBlocks; first += kRows[block++]) {
    const CandidateRows::Begin begin = {0, tokens_[static_cast<size_t>(block)]};
    std::vector<float> logits = logits_;  // which the call may change
    const SelectedEdges edges = head.score(*ops_, {rows(hidden_, kHidden, first, kRows[block]),
                                                   rows(logits, kVocab, first, kRows[block]),
                                                   {&begin, 1},
                                                   rows(features_, kHidden, block, 1)});
    for (int32_t row = 0; row < kRows[block]; ++row) {
      alone.emplace_back(edges.after(row, 0), edges.after(row, row == 0 ? 1 : n));
    }
    begins.push_back({first, begin.token});
  }
  const auto together = [&] {
    std::vector<float> logits = logits_;
    return head.score(*ops_, {rows(hidden_, kHidden, 0, kAll), rows(logits, kVocab, 0, kAll), begins,
                              rows(features_, kHidden, 0, kBlocks)});
  };
  const SelectedEdges edges = together();
  for (int32_t row = 0; row < kAll; ++row) {
    const std::vector<float>& expected = alone[static_cast<size_t>(row)];
    EXPECT_EQ(std::vector<float>(edges.after(row, 0), edges.after(row, 0) + expected.size()), expected) << row;
  }
  // Of the anchor's features and of the other positions a block's scores do depend.
  features_[0] += 5;
  hidden_[4 * kHidden] += 5;
  const SelectedEdges moved = together();
  EXPECT_NE(std::vector<float>(moved.after(0, 0), moved.after(0, 1)), alone[0]);
  EXPECT_EQ(std::vector<float>(moved.after(5, 0), moved.after(5, 1)), alone[5]);
}

TEST_P(DominoBatches, RememberEachBlocksTokens) {
  const auto run = [&](std::vector<float> logits, const std::vector<int32_t>& blocks) {
    for (int32_t draft = 1; draft <= 5; ++draft) {
      std::vector<InTurnHead::Step> steps;
      int32_t first = 0;
      for (int32_t block = 0; block < kBlocks; first += kRows[block++]) {
        const auto place = std::find(blocks.begin(), blocks.end(), block) - blocks.begin();
        if (place == std::ssize(blocks) || draft > kRows[block]) continue;
        const int32_t row = first + draft - 1;
        steps.push_back({row, tokens_[static_cast<size_t>(row)], static_cast<int32_t>(place), draft});
      }
      drafter_->in_turn()->add(*ops_, rows(hidden_, kHidden, 0, kAll), rows(logits, kVocab, 0, kAll), steps);
    }
    return logits;
  };
  const std::vector<float> together = run(logits_, {0, 1, 2});
  EXPECT_NE(together, logits_);
  int32_t first = 0;
  for (int32_t block = 0; block < kBlocks; first += kRows[block++]) {
    std::vector<float> alone = run(logits_, {block});
    for (int32_t row = first; row < first + kRows[block]; ++row) {
      const auto at = static_cast<std::ptrdiff_t>(row) * kVocab;
      EXPECT_TRUE(std::equal(alone.begin() + at, alone.begin() + at + kVocab, together.begin() + at)) << row;
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
