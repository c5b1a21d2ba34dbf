// SPDX-License-Identifier: Apache-2.0
#include "session/dllm_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

BlockOptions parse_dllm(const std::string& text, const DllmOptions& flags = {}) {
  return parse_block_options(flags, text, "f.yaml");
}

std::string dllm_problem(const std::string& text, const DllmOptions& flags = {}) {
  try {
    parse_dllm(text, flags);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(DllmOptions, FileOfAnotherEngine) {
  const BlockOptions options = parse_dllm(
      "algorithm: JointThreshold\nblock_size: 32\nthreshold: 0.7\nedit-threshold: 0.5\nmax_post_edit_steps: 4\n");
  EXPECT_EQ(options.algorithm.name, "joint_threshold");
  EXPECT_EQ(options.block_size, 32);
  EXPECT_EQ(options.algorithm.values,
            (std::map<std::string, double>{{"threshold", 0.7}, {"edit_threshold", 0.5}, {"max_post_edit_steps", 4}}));
}

TEST(DllmOptions, FlagsWinAndNothingIsTheUsual) {
  EXPECT_TRUE(parse_dllm("").algorithm.name.empty());
  EXPECT_EQ(parse_dllm("").block_size, 0);
  EXPECT_FALSE(DllmOptions{}.given());
  const BlockOptions options =
      parse_dllm("block_size = 32\nalgorithm = \"factor\"\ngamma = 1", {"entropy_bound", "", 4});
  EXPECT_EQ(options.algorithm.name, "entropy_bound");
  EXPECT_EQ(options.block_size, 4);
}

TEST(DllmOptions, NamesFileLineFoundAndExpected) {
  EXPECT_THAT(dllm_problem("threshold = 1.5"),
              HasSubstr("f.yaml:1: the algorithm low_confidence: threshold is 1.5; expected 0 to 1"));
  EXPECT_THAT(dllm_problem("\ngamma: 1"), HasSubstr("f.yaml:2: the algorithm low_confidence has no parameter 'gamma'; "
                                                    "expected one of threshold, algorithm, block_size"));
  EXPECT_THAT(dllm_problem("gamma = 1", {"factor", "", 0}), HasSubstr("the algorithm factor has no parameter 'gamma'"));
  EXPECT_THAT(dllm_problem("a = 1\nalgorithm = best"),
              HasSubstr("f.yaml:2: unknown denoising algorithm 'best'; expected"));
  EXPECT_THAT(dllm_problem("threshold = high"), HasSubstr("f.yaml:1: \"threshold\" is high; expected a number"));
  EXPECT_THAT(dllm_problem("algorithm: static\nsteps: 1.5"), HasSubstr("steps is 1.5; expected a whole number from 0"));
  for (const char* size : {"0", "65", "8.5", "-1", "1e9"}) {
    EXPECT_THAT(dllm_problem(std::string("block_size: ") + size), HasSubstr("expected a whole number from 1 to 64"))
        << size;
  }
  EXPECT_THAT(dllm_problem("algorithm: joint_threshold\nedit-threshold: 0\nedit_threshold: 0"),
              HasSubstr("f.yaml:3: \"edit_threshold\" is there twice"));
  EXPECT_THAT(dllm_problem("block-size: 4\nblock_size: 16"), HasSubstr("f.yaml:2: \"block_size\" is there twice"));
}

TEST(DllmOptions, FileThatIsNotThere) {
  EXPECT_THROW(block_options({"", "/no/such/file.yaml", 0}), Error);
  EXPECT_EQ(block_options({"static", "", 8}).algorithm.name, "static");
}

}  // namespace
}  // namespace ashlar
