// SPDX-License-Identifier: Apache-2.0
#include "app/figures.h"
#include "app/block_demo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/ordered_output.h"

namespace ashlar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Answer answer_of(std::vector<int32_t> lengths, int64_t decode_ns) {
  Answer answer;
  answer.finish = "stop";
  RequestStats& stats = answer.stats;
  stats.prompt_tokens = 10;
  stats.lengths = std::move(lengths);
  stats.submitted_ns = stats.admitted_ns = 1'000'000;
  stats.first_token_ns = 3'000'000;
  stats.finished_ns = stats.first_token_ns + decode_ns;
  int32_t tokens = 1;
  for (size_t n = 0; n < stats.lengths.size(); ++n) {
    stats.verify_steps += stats.lengths[n];
    tokens += static_cast<int32_t>(n) * stats.lengths[n];
  }
  stats.generated_tokens = tokens;
  stats.drafted = 1;
  answer.tokens.assign(tokens, 7);
  return answer;
}

TEST(AnswerTotals, TooLittleGivesNoRate) {
  const Answer two = answer_of({0, 1}, 20'000);  // 50,000 tokens a second, if one wanted to believe it
  EXPECT_EQ(two.decode_tokens_per_second(), 0);
  EXPECT_TRUE(stats_json(two)["tokens_per_second"].is_null());
  EXPECT_THAT(stats_line({two}, 0.001, StepKind::kVerify), testing::Not(HasSubstr("tokens/s")));
  EXPECT_THAT(stats_line({two}, 0.001, StepKind::kForward), testing::Not(HasSubstr("tokens/s")));
  Answer many = answer_of({0, 8}, 8'000'123);
  many.stats.first_token_ns += 123;
  EXPECT_EQ(stats_json(many)["tokens_per_second"], 1000.0);
  EXPECT_EQ(stats_json(many)["first_token_seconds"], 0.002);  // whole microseconds
}

TEST(StatsJson, TellsOfDraftsOrOfForwards) {
  Answer answer = answer_of({0, 3, 1}, 10'000'000);
  EXPECT_EQ(stats_json(answer)["mean_acceptance_length"], 1.25);
  EXPECT_FALSE(stats_json(answer).contains("forwards"));
  EXPECT_TRUE(stats_json(answer_of({}, 10'000))["mean_acceptance_length"].is_null());
  answer.stats.unmasked_in_pass = {4, 2};  // one more than the answer has, after its end
  EXPECT_EQ(stats_json(answer)["forwards"], 4);
  EXPECT_EQ(stats_json(answer)["tokens_per_forward"], 1.5);
  EXPECT_FALSE(stats_json(answer).contains("mean_acceptance_length"));
}

TEST(AnswerTotals, AddUpOverStepsNotOverAnswers) {
  AnswerTotals totals;
  totals.add(answer_of({0, 3, 1}, 10'000'000));        // 5 tokens in 4 steps
  totals.add(answer_of({0, 0, 0, 0, 4}, 20'000'000));  // 16 in 4
  EXPECT_DOUBLE_EQ(totals.mean_length(), 21.0 / 8);
  EXPECT_THAT(totals.lengths, ElementsAre(0, 3, 1, 0, 4));
  EXPECT_NEAR(totals.decode_rate(), 21 / 0.030, 1e-6);  // the first token of each belongs to its prompt
}

TEST(StatsLine, OfOneAnswer) {
  const std::string line = stats_line({answer_of({0, 0, 4}, 8'000'000)}, 1);
  EXPECT_EQ(line, "9 tokens, 1000 tokens/s, 2.00 tokens per step, prompt 10 tokens, first token after 2.0 ms");
}

TEST(StatsLine, OfABlockDiffusionModel) {
  Answer answer = answer_of({0, 0, 4}, 8'000'000);  // decided 8; 6 of them belong to the answer
  answer.tokens.resize(6);
  answer.stats.generated_tokens = 6;
  answer.stats.drafted = 0;
  answer.stats.blocks = 1;
  answer.stats.prompt_done_ns = 1'000'000;  // its first tokens are not the prompt's: 10 ms for all of them
  EXPECT_EQ(stats_line({answer}, 1, StepKind::kForward),
            "6 tokens, 600 tokens/s, 1.50 tokens per forward, prompt 10 tokens, first token after 2.0 ms");
}

TEST(StatsLine, OfSeveralAnswersCountsTheWholeTime) {
  const std::string line = stats_line({answer_of({0, 0, 4}, 8'000'000), answer_of({0, 0, 4}, 8'000'000)}, 0.5);
  EXPECT_THAT(line, HasSubstr("18 tokens in 2 answers, 36.0 tokens/s"));
}

TEST(StatsLine, OfNothing) {
  Answer refused;
  refused.finish = "error";
  EXPECT_EQ(stats_line({refused}, 0), "0 tokens, error");
}

TEST(Histogram, ShowsSharesOfSteps) {
  EXPECT_THAT(histogram_lines({0, 6, 0, 2, 0}, 28), ElementsAre("   1 | ############ 75.0 %", "   3 | #### 25.0 %"));
  EXPECT_TRUE(histogram_lines({}, 40).empty());
  EXPECT_TRUE(histogram_lines({0, 0}, 40).empty());
}

TEST(DumpLine, IsOneLineOfUtf8) { EXPECT_EQ(dump_line(Json("a\n\xff")), "\"a\\n\xEF\xBF\xBD\""); }

TEST(Tinted, OnlyDraftsInColour) {
  EXPECT_EQ(tinted("x", true, false), "x");
  EXPECT_EQ(tinted("x", false, true), "x");
  EXPECT_EQ(tinted("x", true, true), "\033[36mx\033[0m");
}

TEST(BlockFrames, PositionsFillInTheOrderOfTheirPasses) {
  int columns = 0;
  const std::vector<std::string> frames = block_frames({{"The", 0}, {" \u00fc", 2}, {"\n", 0}, {"", 1}}, &columns);
  EXPECT_EQ(columns, 6);
  const std::string shade = "\u2591";
  const auto shades = [&](int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += shade;
    return out;
  };
  EXPECT_THAT(frames,
              ElementsAre(shades(6), "The" + shades(2) + "\u21b5", "The" + shades(2) + "\u21b5", "The \u00fc\u21b5"));
}

}  // namespace
}  // namespace ashlar
