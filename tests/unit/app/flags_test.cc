// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/flags.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

struct Parsed {
  SessionOptions session;
  SamplingParams sampling;
  ColorMode color = ColorMode::kAuto;
};

Parsed parse(const std::string& arguments) {
  Parsed parsed;
  CLI::App app;
  add_session_flags(app, parsed.session);
  add_sampling_flags(app, parsed.sampling);
  add_color_flag(app, parsed.color);
  app.parse(arguments, false);
  return parsed;
}

TEST(Flags, DefaultsAreTheLibrariesOwn) {
  const Parsed parsed = parse("");
  EXPECT_EQ(parsed.session.model, "");
  EXPECT_EQ(parsed.session.engine.depth, EngineOptions{}.depth);
  EXPECT_EQ(parsed.session.engine.kv_bytes, 0);
  EXPECT_EQ(parsed.session.dflash.passes, 1);
  EXPECT_EQ(parsed.session.dflash.branches, DflashOptions::kDefaultBranches);
  EXPECT_EQ(parsed.session.ngram, DecoderSpec{}.ngram);
  EXPECT_FALSE(parsed.session.dllm.given());
  EXPECT_TRUE(parsed.session.self_test);
  EXPECT_TRUE(parsed.session.engine.prefix_cache);
  EXPECT_TRUE(parsed.sampling.greedy());
}

TEST(Flags, ReachWhereTheyBelong) {
  const Parsed parsed = parse(
      "folder --drafter none --width 8 --branches 5 --draft-window 128 --ngram-drafts always --passes 2 --schedule "
      "linear "
      "--no-self-test "
      "--device ref "
      "--threads 3 --isa avx2 "
      "--dllm-algorithm JointThreshold --dllm-algorithm-config file.yaml --dllm-block-size 4 "
      "--max-context 100 --kv-memory 64M --drafter-weights int4 --weights-cache cache --kv-dtype f32 --max-sequences 5 "
      "--prefill-chunk 7 "
      "--no-prefix-cache --depth "
      "1 "
      "--temperature 0.5 --top-k 3 --top-p 0.9 --min-p 0.1 --repetition-penalty 1.1 --presence-penalty 0.2 "
      "--frequency-penalty 0.3 "
      "--logit-bias 4:-2.5 --logit-bias 5:1 --seed 77 --scheme rejection --color always");
  EXPECT_EQ(parsed.session.model, "folder");
  EXPECT_EQ(parsed.session.drafter, "none");
  EXPECT_EQ(parsed.session.dflash.width, 8);
  EXPECT_EQ(parsed.session.dflash.window, 128);
  EXPECT_EQ(parsed.session.dflash.branches, 5);
  EXPECT_EQ(parsed.session.ngram, NgramUse::kAlways);
  EXPECT_EQ(parse("--recall always").session.ngram, NgramUse::kAlways);  // its name in the version before
  EXPECT_EQ(parsed.session.dflash.passes, 2);
  EXPECT_EQ(parsed.session.dflash.schedule, DenoiseSchedule::kLinear);
  EXPECT_FALSE(parsed.session.self_test);
  EXPECT_EQ(parsed.session.device, "ref");
  EXPECT_EQ(parsed.session.device_options.threads, 3);
  EXPECT_EQ(parsed.session.device_options.isa, "avx2");
  EXPECT_EQ(parsed.session.device_options.kv_dtype, KvDType::kF32);
  EXPECT_EQ(parsed.session.device_options.drafter_weights, KeptWeights::kInt4);
  EXPECT_EQ(parsed.session.device_options.weights, KeptWeights::kAuto);
  EXPECT_EQ(parsed.session.weights_cache, "cache");
  EXPECT_EQ(parsed.session.dllm.algorithm, "JointThreshold");
  EXPECT_EQ(parsed.session.dllm.config_file, "file.yaml");
  EXPECT_EQ(parsed.session.dllm.block_size, 4);
  EXPECT_EQ(parsed.session.max_context, 100);
  EXPECT_EQ(parsed.session.engine.kv_bytes, 64 << 20);
  EXPECT_EQ(parsed.session.engine.max_sequences, 5);
  EXPECT_EQ(parsed.session.engine.prefill_chunk, 7);
  EXPECT_FALSE(parsed.session.engine.prefix_cache);
  EXPECT_EQ(parsed.session.engine.depth, 1);
  EXPECT_EQ(parsed.sampling.temperature, 0.5);
  EXPECT_EQ(parsed.sampling.top_k, 3);
  EXPECT_EQ(parsed.sampling.min_p, 0.1);
  EXPECT_EQ(parsed.sampling.frequency_penalty, 0.3);
  EXPECT_EQ(parsed.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{4, -2.5F}, {5, 1.0F}}));
  EXPECT_EQ(parsed.sampling.seed, 77U);
  EXPECT_EQ(parsed.sampling.scheme, SamplingScheme::kRejection);
  EXPECT_EQ(parsed.color, ColorMode::kAlways);
}

TEST(Flags, VariablesStandInForFlags) {
  ::setenv("ASHLAR_THREADS", "1", 1);
  ::setenv("ASHLAR_FORCE_ISA", "portable", 1);
  EXPECT_EQ(parse("").session.device_options.threads, 1);
  EXPECT_EQ(parse("").session.device_options.isa, "portable");
  EXPECT_EQ(parse("--threads 2").session.device_options.threads, 2);
  ::setenv("ASHLAR_THREADS", "lots", 1);
  EXPECT_THROW(parse(""), CLI::ParseError);
  ::unsetenv("ASHLAR_THREADS");
  ::unsetenv("ASHLAR_FORCE_ISA");
}

TEST(Flags, RefuseWhatMakesNoSense) {
  for (const char* bad : {"--width 1",
                          "--width 65",
                          "--threads -1",
                          "--depth 3",
                          "--temperature -0.1",
                          "--temperature x",
                          "--top-p 2",
                          "--scheme best",
                          "--schedule best",
                          "--kv-memory 0",
                          "--kv-memory 5Q",
                          "--logit-bias 5",
                          "--logit-bias a:1",
                          "--logit-bias -1:1",
                          "--logit-bias 1:nan",
                          "--logit-bias 1:2x",
                          "--kv-dtype f8",
                          "--color maybe",
                          "--device gpu",
                          "--seed -1",
                          "one two",
                          "--dllm-algorithm best",
                          "--dllm-block-size 0",
                          "--dllm-block-size 65"}) {
    EXPECT_THROW(parse(bad), CLI::ParseError) << bad;
  }
}

}  // namespace
}  // namespace ashlar
