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
class RefinerBatches : public DrafterBatches {
 protected:
  RefinerBatches() : DrafterBatches("speculators_xpress") { drafter_->refiner()->reserve(*ops_, kAll); }
};
INSTANTIATE_TEST_SUITE_P(Devices, LatticeBatches, ::testing::Values("ref", "cpu"),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Devices, DominoBatches, ::testing::Values("ref", "cpu"),
                         [](const auto& test) { return test.param; });

INSTANTIATE_TEST_SUITE_P(Devices, RefinerBatches, ::testing::Values("ref", "cpu"),
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

// And a position knows the tokens before it, none after, and of all rows of its block the mean.
TEST_P(RefinerBatches, CorrectEachBlockAsItIs) {
  BlockRefiner& head = *drafter_->refiner();
  const int32_t vocab = drafter_->config().draft_vocab;
  const auto run = [&](int32_t first, const std::vector<int32_t>& sizes) {
    std::vector<BlockRefiner::Block> blocks;
    std::vector<int32_t> wanted;
    int32_t n = 0;
    for (const int32_t size : sizes) {
      blocks.push_back({n, size});
      for (int32_t i = 1; i < size; ++i) wanted.push_back(n + i);  // a block's first row only speaks to the others
      n += size;
    }
    head.begin(*ops_, rows(hidden_, kHidden, first, n), blocks);
    const auto count = static_cast<int32_t>(wanted.size());
    std::vector<float> out(static_cast<size_t>(count * vocab));
    head.correct(*ops_, std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(n)), wanted,
                 {out.data(), count, vocab, vocab});
    return out;
  };
  const auto append = [](std::vector<float>& to, const std::vector<float>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  const std::vector<float> together = run(0, {kRows[0], kRows[1], kRows[2]});
  std::vector<float> alone;
  int32_t first = 0;
  for (const int32_t size : kRows) {
    append(alone, run(first, {size}));
    first += size;
  }
  EXPECT_EQ(alone, together);
  const auto differs = [&](int32_t row) {
    const std::vector<float> now = run(0, {kRows[0], kRows[1], kRows[2]});
    const auto at = static_cast<std::ptrdiff_t>(row) * vocab;
    return !std::equal(now.begin() + at, now.begin() + at + vocab, together.begin() + at);
  };
  std::swap(tokens_[2], tokens_[3]);
  ASSERT_NE(tokens_[2], tokens_[3]);
  EXPECT_TRUE(!differs(0) && differs(1) && differs(2) && differs(3) && !differs(4));
  std::swap(tokens_[2], tokens_[3]);
  hidden_[4 * kHidden] += 5;
  EXPECT_TRUE(differs(0) && !differs(4));
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
