// SPDX-License-Identifier: Apache-2.0
// The study of denoising algorithms over the real engine and a decoder whose every token is known.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "measure/evaluation/block_report.h"
#include "unit/measure/known_decoder.h"
#include "xml_check.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BlockStudies : public ::testing::Test {
 protected:
  BlockStudies() {
    options_.max_tokens = 14;
    options_.batch = 2;
  }

  // One token a step is "sequential"; wider ones stand for an algorithm, of which one gets a token wrong.
  BlockStudy run() {
    BlockStudy study(options_, prompts_);
    const auto progress = [this](int64_t done) { last_ = std::max(last_, done); };
    study.run_sequential(*engine(1, -1), 4, progress);
    study.run(*engine(4, -1), {"LowConfidence", {{"threshold", 0.7}}}, progress);
    study.run(*engine(4, 9), {"factor", {}}, progress);
    return study;
  }

  std::unique_ptr<Engine> engine(int32_t width, int32_t wrong_at) {
    EngineOptions options;
    options.max_sequences = 4;
    return std::make_unique<Engine>(*ops_, std::make_unique<KnownDecoder>(width, wrong_at), options);
  }

  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  BlockStudyOptions options_;
  std::vector<PromptIds> prompts_ = {{"p1", "", {1, 2, 3}}, {"p2", "", {4, 5}}, {"p3", "", {6}}};
  int64_t last_ = 0;
};

TEST_F(BlockStudies, CountForwardsBlocksAndAgreement) {
  const BlockStudy study = run();
  EXPECT_EQ(last_, 9);
  ASSERT_EQ(study.cells().size(), 3U);
  const BlockCell& sequential = study.cells()[0];
  EXPECT_EQ(sequential.tokens, 3 * 14);
  EXPECT_EQ(sequential.forwards, 3 * 13);   // the prefill yields the first token
  EXPECT_EQ(sequential.blocks, 5 + 4 + 4);  // positions 3 to 16, 2 to 15 and 1 to 14 in blocks of 4
  EXPECT_EQ(sequential.identical, 3);
  EXPECT_EQ(sequential.mean_agreement().value, 1);
  const BlockCell& wide = study.cells()[1];
  EXPECT_EQ(wide.forwards, 3 * 4);
  EXPECT_DOUBLE_EQ(wide.tokens_per_forward().value, 3.5);
  EXPECT_DOUBLE_EQ(wide.forwards_per_block(), 12.0 / 13);
  EXPECT_GT(wide.tokens_per_second(), 0);
  EXPECT_EQ(wide.identical, 3);
  const BlockCell& wrong = study.cells()[2];  // from position 9 on
  EXPECT_EQ(wrong.identical, 0);
  EXPECT_THAT(wrong.agreement, ::testing::ElementsAre(6.0 / 14, 7.0 / 14, 8.0 / 14));
  EXPECT_DOUBLE_EQ(wrong.mean_agreement().value, 0.5);
}

TEST_F(BlockStudies, ModelsWithoutBlocksCountFromTheAnswer) {
  options_.blocks_from_answer = true;
  EXPECT_EQ(run().cells()[0].blocks, 3 * 4);
}

TEST_F(BlockStudies, ReportsAreWellFormed) {
  const BlockStudy study = run();
  const Json json = Json::parse(block_study_json(study).dump());
  ASSERT_EQ(json["cells"].size(), 3U);
  EXPECT_EQ(json["cells"][1]["algorithm"], "low_confidence");
  EXPECT_EQ(json["cells"][1]["parameters"]["threshold"], 0.7);
  EXPECT_EQ(json["cells"][2]["parameters"]["factor"], 1.0);
  EXPECT_EQ(json["cells"][2]["agreement"]["value"], 0.5);
  EXPECT_THAT(json.dump(), Not(HasSubstr("null")));
  const std::string text = block_study_text(study);
  EXPECT_THAT(text, HasSubstr("threshold 0.7"));
  EXPECT_THAT(text, HasSubstr("0 of 3"));
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    EXPECT_LE(text.find('\n', begin) - begin, 170U) << text.substr(begin, 80);
  }
  const std::string svg = block_study_svg(study, "a <model>");
  EXPECT_EQ(testing::xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("a &lt;model&gt;"));
  EXPECT_THAT(svg, HasSubstr(">factor<"));
}

TEST(Agreement, IsAShareOfTheLongerAnswer) {
  EXPECT_EQ(agreement_of({1, 2}, {1, 2}), 1);
  EXPECT_EQ(agreement_of({1, 2}, {1, 2, 3, 4}), 0.5);
  EXPECT_EQ(agreement_of({1, 2}, {3, 2}), 0);
  EXPECT_EQ(agreement_of({}, {}), 1);
}

}  // namespace
}  // namespace ashlar
