// SPDX-License-Identifier: Apache-2.0
// Walks along edges that the test has: what each draft is chosen from, and by what.

#include "decode/propose/selector_walk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "device/ref/ref_ops.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kVocab = 50, kWidth = 5, kRows = kWidth - 1;
constexpr int32_t kN = 6;

class Walk : public ::testing::Test {
 protected:
  Walk() {
    std::mt19937 random(3);
    for (int32_t row = 0; row < kRows; ++row) {
      for (int32_t i = 0; i < kN; ++i) ids_.push_back((7 * row + 5 * i + 1) % kVocab);
    }
    std::normal_distribution<float> normal(0, 1.5F);
    for (int32_t i = 0; i < kRows * kN * kN; ++i) scores_.push_back(normal(random));
    span_.start = 20;
    span_.width = kWidth;
    span_.ids[0] = 4;
    span_.make_chain();
    slot_.counts.reserve(kVocab);
  }
  SelectedEdges edges() const { return {kN, ids_, scores_}; }
  /// Which candidate of row `row` a token is.
  int32_t index(int32_t row, int32_t token) const {
    const auto* const first = ids_.data() + row * kN;
    return static_cast<int32_t>(std::find(first, first + kN, token) - first);
  }
  int32_t before(int32_t row) const { return row == 0 ? 0 : index(row - 1, span_.ids[row]); }
  void fill(float* distributions = nullptr) {
    walk_.begin(edges(), 0, span_, slot_);
    walk_.fill_chain(span_, distributions);
  }

  std::unique_ptr<Ops> ops_ = make_ref_ops();
  SelectorWalk walk_{*ops_, kN, kVocab};
  std::vector<int32_t> ids_;
  std::vector<float> scores_;
  ChainSpan span_;
  Slot slot_;
};

TEST_F(Walk, TakesTheHighestScoreAfterEachDraft) {
  fill();
  for (int32_t row = 0; row < kRows; ++row) {
    const int32_t taken = index(row, span_.ids[row + 1]);
    ASSERT_LT(taken, kN);
    const float* const scores = edges().after(row, before(row));
    EXPECT_EQ(std::max_element(scores, scores + kN) - scores, taken) << row;
  }
}

// Invariant: counter-based-noise. The noise is that of plain decoding at the draft's position, by its token.
TEST_F(Walk, IsCoupledToTheNoiseOfItsPositions) {
  slot_.params.temperature = 0.8;
  for (slot_.params.seed = 0; slot_.params.seed < 50; ++slot_.params.seed) {
    fill();
    SamplerScratch scratch;
    for (int32_t row = 0; row < kRows; ++row) {
      std::vector<float> logits(kVocab, -1e9F);
      for (int32_t i = 0; i < kN; ++i) {
        logits[static_cast<size_t>(ids_[static_cast<size_t>(row * kN + i)])] = edges().after(row, before(row))[i];
      }
      EXPECT_EQ(sample_token(logits.data(), kVocab, slot_.params, span_.start + row + 1, nullptr, scratch),
                span_.ids[row + 1]);
    }
  }
}

TEST_F(Walk, LeavesWhatDraftsWereDrawnFrom) {
  slot_.params.temperature = 0.7;
  slot_.params.scheme = SamplingScheme::kRejection;
  std::vector<float> distributions(static_cast<size_t>(kWidth * kVocab), 7.0F);
  std::map<int32_t, int32_t> counts;
  constexpr int32_t kDraws = 4000;
  for (int32_t draw = 0; draw < kDraws; ++draw) {
    slot_.params.seed = static_cast<uint64_t>(draw);
    fill(distributions.data());
    ++counts[span_.ids[1]];
    if (draw % 100 != 0) continue;
    for (int32_t row = 0; row < kRows; ++row) {
      const float* const q = distributions.data() + (row + 1) * kVocab;
      const float* const scores = edges().after(row, before(row));
      double sum = 0, total = 0;
      for (int32_t i = 0; i < kN; ++i) sum += std::exp(scores[i] / 0.7);
      for (int32_t i = 0; i < kVocab; ++i) total += q[i];
      EXPECT_NEAR(total, 1, 1e-5);
      for (int32_t i = 0; i < kN; ++i) {
        EXPECT_NEAR(q[ids_[static_cast<size_t>(row * kN + i)]], std::exp(scores[i] / 0.7) / sum, 1e-5);
      }
    }
  }
  for (const auto& [id, n] : counts) {
    const double q = distributions[static_cast<size_t>(kVocab + id)];
    EXPECT_NEAR(static_cast<double>(n) / kDraws, q, 4 * std::sqrt(q * (1 - q) / kDraws)) << id;
  }
}

TEST_F(Walk, PenaltiesSeeTheDraftsBefore) {
  // All rows have one set of candidates, and the first is the best after any: without a penalty, always that.
  for (int32_t row = 0; row < kRows; ++row) std::copy_n(ids_.begin(), kN, ids_.begin() + row * kN);
  for (size_t i = 0; i < scores_.size(); ++i) scores_[i] = static_cast<float>(kN - static_cast<int32_t>(i % kN));
  fill();
  EXPECT_EQ(span_.ids[1], span_.ids[kRows]);
  slot_.params.presence_penalty = 100;
  fill();
  for (int32_t row = 0; row < kRows; ++row) EXPECT_EQ(span_.ids[row + 1], ids_[static_cast<size_t>(row)]);
}

TEST_F(Walk, GrowsATreeAlongTheLikeliestEdges) {
  span_.branches = 3;
  walk_.begin(edges(), 0, span_, slot_);
  DraftTreeBuilder().build(walk_, kRows, kRows, span_);
  ASSERT_GE(span_.width, 2);
  for (int32_t k = 1; k <= span_.n_chances; ++k) {
    if (span_.order[k] == 0) continue;
    std::vector<int32_t> path;
    for (int32_t r = span_.order[k]; r > 0; r = span_.parents[r]) path.insert(path.begin(), span_.ids[r]);
    double chance = 1;
    for (size_t row = 0; row < path.size(); ++row) {
      const int32_t from = row == 0 ? 0 : index(static_cast<int32_t>(row) - 1, path[row - 1]);
      const float* const scores = edges().after(static_cast<int32_t>(row), from);
      double sum = 0;
      for (int32_t i = 0; i < kN; ++i) sum += std::exp(scores[i]);
      chance *= std::exp(scores[index(static_cast<int32_t>(row), path[row])]) / sum;
    }
    EXPECT_NEAR(span_.chances[k], chance, 0.05 * chance) << k;  // sums of exponentials are rough there
  }
  // The first path to be taken is that of the best first draft.
  const float* const first = edges().after(0, 0);
  EXPECT_EQ(span_.ids[span_.order[1]], ids_[static_cast<size_t>(std::max_element(first, first + kN) - first)]);
}

}  // namespace
}  // namespace ashlar::testing
