// SPDX-License-Identifier: Apache-2.0
// Anchors, rows and weights of a training step, on documents written down by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "train/drafter/block_batch.h"
#include "train/drafter/position_weights.h"

namespace ashlar {
namespace {

using Anchors = DrafterTrainer::Anchors;
using ::testing::ElementsAre;
using ::testing::FloatNear;

struct Example {
  std::vector<int32_t> ids;
  std::vector<uint8_t> supervised;
  std::vector<float> aux_hidden;
  TrainDocument document() { return {ids, supervised, {aux_hidden.data(), static_cast<int32_t>(ids.size()), 1, 1}}; }
};

Example example(std::vector<uint8_t> supervised) {
  Example out;
  for (size_t i = 0; i < supervised.size(); ++i) {
    out.ids.push_back(100 + static_cast<int32_t>(i));
    out.aux_hidden.push_back(static_cast<float>(i));
  }
  out.supervised = std::move(supervised);
  return out;
}

// A block begins at a token of an answer whose successor is one too: not at the last token of a prompt, as serving
// drafts after the first token of the answer, and not at the end of an answer.
TEST(DrafterBlocks, AnchorsStandInAnswers) {
  Example two_answers = example({0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1});
  EXPECT_THAT(draw_anchors(two_answers.document(), 512, 1, 0, 0), ElementsAre(2, 3, 9));
  EXPECT_THAT(draw_anchors(example({0, 0}).document(), 512, 1, 0, 0), ElementsAre());
  EXPECT_THAT(draw_anchors(example({}).document(), 512, 1, 0, 0), ElementsAre());
  EXPECT_THAT(draw_anchors(example({1}).document(), 512, 1, 0, 0), ElementsAre());
}

TEST(DrafterBlocks, AnchorsAreDrawnEvenly) {
  Example answer = example(std::vector<uint8_t>(21, 1));
  std::map<int32_t, int> seen;
  for (uint64_t step = 0; step < 2000; ++step) {
    const Anchors anchors = draw_anchors(answer.document(), 5, 7, step, 0);
    ASSERT_EQ(anchors.size(), 5U);
    for (size_t i = 1; i < anchors.size(); ++i) ASSERT_LT(anchors[i - 1], anchors[i]);
    for (const int32_t anchor : anchors) ++seen[anchor];
  }
  ASSERT_EQ(seen.size(), 20U);
  // Each is drawn 500 times of 2000, with a deviation of 19.
  for (const auto& [anchor, times] : seen) EXPECT_NEAR(times, 500, 95) << anchor;
}

// Invariant: counter-based-noise
TEST(DrafterBlocks, AnchorsAreAFunctionOfSeedStepAndDocument) {
  Example answer = example(std::vector<uint8_t>(400, 1));
  const auto draw = [&](uint64_t seed, uint64_t step, uint32_t index) {
    return draw_anchors(answer.document(), 20, seed, step, index);
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
  EXPECT_NE(draw(1, 2, 3), draw(1, (uint64_t{1} << 32) + 2, 3));
}

TEST(DrafterBlocks, RowsOfTwoDocuments) {
  TrainShape shape;
  shape.block = 3;
  shape.aux_width = 1;
  shape.mask_token_id = 9;
  Example first = example({0, 1, 1, 1, 0, 1});
  Example second = example({1, 1});
  BlockBatch batch;
  batch.add(first.document(), Anchors{1, 3}, shape);
  batch.add(second.document(), Anchors{}, shape);
  batch.add(second.document(), Anchors{0}, shape);
  EXPECT_EQ(batch.context_rows, 3);  // nothing sees what comes from the last anchor on
  ASSERT_EQ(batch.aux_hidden.size(), 2U);
  EXPECT_EQ(batch.aux_hidden[0].rows, 3);
  EXPECT_EQ(batch.aux_hidden[0].data, first.aux_hidden.data());
  EXPECT_EQ(batch.aux_hidden[1].rows, 0);
  EXPECT_THAT(batch.ids, ElementsAre(101, 9, 9, 103, 9, 9, 100, 9, 9));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 1, 2, 3, 3, 4, 5, 0, 1, 2));
  ASSERT_EQ(batch.blocks.size(), 3U);
  EXPECT_EQ(batch.blocks[0].first, 0);
  EXPECT_EQ(batch.blocks[0].n, 1);
  EXPECT_EQ(batch.blocks[1].n, 3);
  EXPECT_EQ(batch.blocks[2].first, 3);
  EXPECT_EQ(batch.blocks[2].n, 0);
  // Slot k predicts token p + k: position 4 is no part of an answer, and the second document ends after position 1.
  EXPECT_THAT(batch.label_rows, ElementsAre(1, 2, 5, 7));
  EXPECT_THAT(batch.labels, ElementsAre(102, 103, 105, 101));
  EXPECT_THAT(batch.before, ElementsAre(101, 102, 104, 100));
  EXPECT_THAT(batch.target_rows, ElementsAre());
}

// A token is predicted by the row before its own; documents without blocks bring no rows.
TEST(DrafterBlocks, RowsOfTheTarget) {
  TrainShape shape;
  shape.hidden = 1;
  shape.block = 3;
  shape.aux_width = 1;
  Example examples[] = {example({0, 1, 1, 1, 0, 1}), example({1, 1}), example({0, 1, 1, 1})};
  BlockBatch batch;
  const Anchors anchors[] = {{1, 3}, {}, {1}};
  for (int i = 0; i < 3; ++i) {
    TrainDocument document = examples[i].document();
    document.final_hidden = document.aux_hidden;
    batch.add(document, anchors[i], shape);
  }
  EXPECT_EQ(batch.n_target_rows, 10);
  ASSERT_EQ(batch.final_hidden.size(), 2U);
  EXPECT_EQ(batch.final_hidden[1].data, examples[2].aux_hidden.data());
  EXPECT_THAT(batch.labels, ElementsAre(102, 103, 105, 102, 103));
  EXPECT_THAT(batch.target_rows, ElementsAre(1, 2, 4, 7, 8));
}

TEST(DrafterBlocks, DpaceWeights) {
  // Two blocks of four slots; slot 2 of the first has no label. s = (1 - 0.5) p + 0.5.
  const std::vector<int32_t> rows = {1, 3, 5, 6, 7};
  const std::vector<TokenLoss> losses = {{0, 0.2F, 0}, {0, 0.6F, 0}, {0, 1, 0}, {0, 0, 0}, {0, 1, 0}};
  EXPECT_THAT(dpace_weights(rows, losses, 4, 0.5),
              ElementsAre(FloatNear(0.6F + 0.6F * 0.8F, 1e-6F), FloatNear(0.6F * 0.8F, 1e-6F),
                          FloatNear(1 + 0.5F + 0.5F, 1e-6F), FloatNear(0.5F + 0.5F, 1e-6F), FloatNear(0.5F, 1e-6F)));
}

TEST(DrafterBlocks, DpaceWeightsOfTokensThatAreNotDrafted) {
  // As if the rows 1 and 6 had labels of probability 0, which weigh nothing themselves.
  const std::vector<int32_t> all = {1, 2, 3, 5, 6, 7}, rows = {2, 3, 5, 7}, lost = {1, 6};
  const std::vector<TokenLoss> of_all = {{0, 0, 0}, {0, 0.5F, 0}, {0, 0.2F, 0}, {0, 0.8F, 0}, {0, 0, 0}, {0, 1, 0}};
  const std::vector<TokenLoss> losses = {of_all[1], of_all[2], of_all[3], of_all[5]};
  const std::vector<float> expected = dpace_weights(all, of_all, 4, 0.3);
  EXPECT_THAT(dpace_weights(rows, losses, 4, 0.3, lost),
              ElementsAre(expected[1], expected[2], expected[3], expected[5]));
}

TEST(DrafterBlocks, ExpectedAcceptance) {
  DraftCounts counts(4);
  const auto right = TokenLoss{0, 0, 1};
  const auto wrong = TokenLoss{0, 0, 0};
  // Three whole blocks: right right wrong; right wrong right; wrong right right. One that ends after slot 1, right.
  const std::vector<int32_t> rows = {1, 2, 3, 5, 6, 7, 9, 10, 11, 13};
  const std::vector<TokenLoss> losses = {right, right, wrong, right, wrong, right, wrong, right, right, right};
  counts.add(rows, std::vector<int32_t>(rows.size(), 1), losses);
  TrainReport report;
  counts.write(report);
  EXPECT_EQ(report.labels, 10);
  EXPECT_THAT(report.position_accuracy, ElementsAre(0.75, 2.0 / 3, 2.0 / 3));
  // Slot 1: 3 of 4; slot 2 where slot 1 was right and there is one: 1 of 2; slot 3: 0 of 1.
  EXPECT_DOUBLE_EQ(report.expected_acceptance, 1 + 0.75 + 0.75 * 0.5);
}

}  // namespace
}  // namespace ashlar
