// SPDX-License-Identifier: Apache-2.0
// The acceptance study over the real engine and a decoder whose every token and acceptance is known.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/device.h"
#include "measure/evaluation/acceptance_report.h"
#include "unit/measure/known_decoder.h"
#include "xml_check.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Study : public ::testing::Test {
 protected:
  static AcceptanceOptions options() {
    AcceptanceOptions options;
    options.temperatures = {0, 0.5};
    options.widths = {4, 2};
    options.max_tokens = 14;
    options.batch = 2;
    return options;
  }

  std::unique_ptr<Engine> engine(int32_t width, int32_t wrong_at = -1) {
    EngineOptions engine_options;
    engine_options.max_sequences = 4;
    return std::make_unique<Engine>(*ops_, std::make_unique<KnownDecoder>(width, wrong_at), engine_options);
  }

  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  std::vector<PromptIds> prompts_ = {{"p1", "x", {1, 2, 3}}, {"p2", "y", {4, 5}}, {"p3", "x", {6}}};
};

TEST_F(Study, CountsWhatTheDecoderDid) {
  AcceptanceStudy study(options(), prompts_);
  int64_t last = 0;
  const auto progress = [&](int64_t done) { last = std::max(last, done); };
  study.run_plain(*engine(1), progress);
  study.run_drafted(*engine(4), progress);
  EXPECT_EQ(study.total_requests(), 3 * 2 * (2 + 2));
  EXPECT_EQ(last, study.total_requests());
  ASSERT_EQ(study.cells().size(), 4U);
  // 14 tokens: one from the prefill, then steps of 4 + 4 + 4 + 1, or six of 2 and one of 1.
  const AcceptanceCell& wide = study.cells()[0];
  EXPECT_EQ(wide.width, 4);
  EXPECT_EQ(wide.all.prompts(), 3);
  EXPECT_EQ(wide.all.steps(), 3 * 4);
  EXPECT_DOUBLE_EQ(wide.all.acceptance_length_per_step().value, 13.0 / 4);
  EXPECT_DOUBLE_EQ(wide.all.acceptance_length_generated().value, 14.0 / 4);
  EXPECT_EQ(study.cells()[1].all.steps(), 3 * 7);
  EXPECT_DOUBLE_EQ(study.cells()[3].temperature, 0.5);
  EXPECT_EQ(wide.by_category.at("x").prompts(), 2);
  EXPECT_EQ(study.compared(), 3 * 2 * 3);
  EXPECT_TRUE(study.mismatches().empty());
}

TEST_F(Study, FindsTheTokenThatDiffers) {
  AcceptanceStudy study(options(), prompts_);
  study.run_plain(*engine(1), {});
  study.run_drafted(*engine(4, 9), {});
  ASSERT_EQ(study.mismatches().size(), static_cast<size_t>(study.compared()));
  const Mismatch& first = study.mismatches().front();
  EXPECT_EQ(first.prompt, "p1");
  EXPECT_EQ(first.width, 4);
  EXPECT_EQ(first.index, 6U);  // the answer begins at position 3
  const std::string text = acceptance_text(study);
  EXPECT_THAT(text, HasSubstr("identical to plain decoding: 0 of 18"));
  EXPECT_THAT(text, HasSubstr("differs: p1, temperature 0, width 4, from token 7 on"));
  EXPECT_EQ(acceptance_json(study)["identity"]["mismatches"].size(), 18U);
}

TEST_F(Study, ReportsAreWellFormed) {
  AcceptanceStudy study(options(), prompts_);
  study.run_plain(*engine(1), {});
  study.run_drafted(*engine(4), {});
  const std::string svg = acceptance_svg(study, "a <model> & its \"drafter\"");
  EXPECT_EQ(testing::xml_problem(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("a &lt;model&gt; &amp; its &quot;drafter&quot;"));
  const Json json = Json::parse(acceptance_json(study).dump());
  EXPECT_EQ(json["cells"].size(), 4U);
  EXPECT_DOUBLE_EQ(json["cells"][0]["acceptance_length_per_step"]["value"].get<double>(), 3.25);
  EXPECT_EQ(json["cells"][0]["length_counts"], Json::parse("[3, 0, 0, 9]"));
  EXPECT_THAT(acceptance_text(study), HasSubstr("18 of 18 answers"));
}

TEST_F(Study, IdentityCanBeLeftOut) {
  AcceptanceOptions without = options();
  without.identity = false;
  AcceptanceStudy study(without, prompts_);
  study.run_plain(*engine(1), {});
  study.run_drafted(*engine(4, 9), {});
  EXPECT_EQ(study.compared(), 0);
  EXPECT_EQ(study.total_requests(), 3 * 2 * 3);
  EXPECT_THAT(acceptance_text(study), HasSubstr("not checked"));
}

TEST_F(Study, RefusedRequestIsAnError) {
  prompts_[1].ids = {kKnownVocab};
  AcceptanceStudy study(options(), prompts_);
  try {
    study.run_plain(*engine(1), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("request 2 was refused"));
  }
}

}  // namespace
}  // namespace ashlar
