// SPDX-License-Identifier: Apache-2.0
// Every unmasking algorithm on the bundled block-diffusion model: sensible numbers of passes, and answers that do not
// depend on what else is decoded.

#include <gtest/gtest.h>

#include "decode/block/algorithms.h"
#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kBlock = 8;
constexpr int32_t kTokens = 40;

class BlockAlgorithms : public ::testing::Test {
 protected:
  std::vector<Answer> run(const AlgorithmSpec& algorithm, const std::vector<Request>& requests) {
    DecoderSpec spec;
    spec.block.block_size = kBlock;
    spec.block.algorithm = algorithm;
    EngineOptions options;
    options.max_sequences = 4;
    options.kv_pages = 64;  // none is preempted, which would repeat passes
    Engine engine(*ops_, make_decoder(*model_, spec), options);
    return run_together(engine, requests);
  }

  static std::vector<Request> requests(int32_t n) {
    std::vector<Request> out;
    const Json json = read_json_file(data_folder() / "pebble-11m-sdar" / "goldens.json");
    for (int32_t i = 0; i < n; ++i) {
      Request& request = out.emplace_back();
      request.prompt = json["cases"][16 * i]["prompt_ids"].get<std::vector<int32_t>>();
      request.max_tokens = kTokens;
    }
    return out;
  }

  std::unique_ptr<Ops> ops_ = make_device("cpu", {.threads = 2, .isa = {}});
  std::unique_ptr<Model> model_ = Model::load(*ops_, models_folder() / "pebble-11m-sdar", 256);
};

TEST_F(BlockAlgorithms, DecodeTheSameAloneAndInABatch) {
  const std::vector<Request> together = requests(4);
  for (const AlgorithmDescription& algorithm : algorithm_descriptions()) {
    SCOPED_TRACE(algorithm.name);
    const std::vector<Answer> answers = run({algorithm.name, {}}, together);
    int32_t tokens = 0, passes = 0;
    for (const Answer& answer : answers) {
      ASSERT_EQ(answer.tokens.size(), static_cast<size_t>(kTokens)) << answer.end.error;
      EXPECT_EQ(answer.end.stats.preemptions, 0);
      tokens += kTokens;
      passes += answer.end.stats.verify_steps;
    }
    const double per_pass = static_cast<double>(tokens) / passes;
    std::printf("%-16s %.3f tokens per pass\n", algorithm.name, per_pass);
    const std::string name = algorithm.name;
    if (name == "static" || name == "sequential") {
      EXPECT_LE(per_pass, 1.0);
      EXPECT_GT(per_pass, 0.85);  // the last block may reach beyond the answer
    } else {
      EXPECT_GT(per_pass, name == "joint_threshold" ? 0.3 : 1.1);  // which goes on editing full blocks
      EXPECT_LT(per_pass, kBlock);
    }
    const Answer alone = run({algorithm.name, {}}, {together[3]})[0];
    EXPECT_EQ(alone.tokens, answers[3].tokens);
    EXPECT_EQ(alone.end.stats.verify_steps, answers[3].end.stats.verify_steps);
  }
}

TEST_F(BlockAlgorithms, RequestsOfOneBatchEachHaveTheirOwn) {
  std::vector<Request> mixed;
  const std::vector<Request> four = requests(4);
  for (const AlgorithmDescription& algorithm : algorithm_descriptions()) {
    mixed.push_back(four[mixed.size() % 4]);
    mixed.back().choice.algorithm = algorithm.name;
  }
  const std::vector<Answer> answers = run({"static", {{"steps", 2}}}, mixed);
  for (size_t i = 0; i < mixed.size(); ++i) {
    const std::string name = mixed[i].choice.algorithm;
    SCOPED_TRACE(name);
    if (name == "static") continue;  // which keeps the decoder's parameters
    mixed[i].choice = {};
    const Answer alone = run({name, {}}, {mixed[i]})[0];
    EXPECT_EQ(answers[i].tokens, alone.tokens);
    EXPECT_EQ(answers[i].end.stats.verify_steps, alone.end.stats.verify_steps);
  }
}

TEST_F(BlockAlgorithms, OneMostConfidentTokenAPassByAnyName) {
  std::vector<Request> one = requests(1);
  const std::vector<int32_t> expected = run({"static", {}}, one)[0].tokens;
  EXPECT_EQ(run({"low_confidence", {{"threshold", 1}}}, one)[0].tokens, expected);
  EXPECT_EQ(run({"joint_threshold", {{"threshold", 1}, {"edit_threshold", 1}}}, one)[0].tokens, expected);
  one[0].width = 1;
  for (const char* name : {"low_confidence", "factor", "hierarchy"})
    EXPECT_EQ(run({name, {}}, one)[0].tokens, expected);
  EXPECT_NE(run({"static", {{"steps", 1}}}, one)[0].end.stats.verify_steps, 0);
}

}  // namespace
}  // namespace ashlar::testing
