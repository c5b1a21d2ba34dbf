// SPDX-License-Identifier: Apache-2.0
// SmolLM2-135M-Instruct in Q4_1 (tools/get-smollm2) against transformers in fp32 on the same numbers: tokens of
// prompts, greedy answers and the perplexity of a text. In long runs, where the file is there.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "device/device.h"
#include "equivalence/configurations.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"
#include "measure/evaluation/perplexity.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::testing {
namespace {

constexpr double kNearEqual = 0.05;  // logits closer than that may change places when weights are rounded to bf16

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("ASHLAR_LONG_TESTS") == nullptr) GTEST_SKIP() << "only in long runs";
    if (!std::filesystem::exists(file_)) GTEST_SKIP() << "tools/get-smollm2 fetches the model";
    goldens_ = read_json_file(data_folder() / "gguf" / "smollm2.json");
  }

  const std::filesystem::path root_ = ASHLAR_SOURCE_DIR;
  const std::filesystem::path file_ = root_ / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  Json goldens_;
};

TEST_F(SmolLm2, AnswersAsTransformersDoes) {
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, file_, 256);
  const Tokenizer tokenizer = Tokenizer::from_model(file_);
  const std::string form = goldens_["prompt"];
  ASSERT_GE(goldens_["answers"].size(), 50U);
  for (const Json& golden : goldens_["answers"]) {
    const std::string question = golden["question"];
    const auto ids = golden["prompt_ids"].get<std::vector<int32_t>>();
    std::string prompt = form;
    EXPECT_EQ(tokenizer.encode(prompt.replace(form.find("{}"), 2, question)), ids) << question;
    const auto want = golden["tokens"].get<std::vector<int32_t>>();
    const auto margins = golden["margins"].get<std::vector<double>>();  // of the best token over the next, each step
    DirectDecoder decoder(*model, nullptr, static_cast<int32_t>(ids.size() + want.size()) + 1);
    const std::vector<int32_t> got = decoder.greedy(ids, static_cast<int32_t>(want.size()), {});
    const auto differs = std::mismatch(want.begin(), want.end(), got.begin()).first - want.begin();
    if (differs == static_cast<std::ptrdiff_t>(want.size())) continue;
    EXPECT_LT(margins[static_cast<size_t>(differs)], kNearEqual) << question << ": token " << differs;
  }
}

// With the file's numbers in bf16, and in the 4 bits that the file has.
TEST_F(SmolLm2, PredictsATextAsTransformersDoes) {
  const Json& golden = goldens_["perplexity"];
  std::ifstream file(root_ / golden["text"].get<std::string>());
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  PerplexityOptions options;
  options.window = golden["window"];
  const auto windows = text_windows(Tokenizer::from_model(file_).encode(text), std::nullopt, options);
  ASSERT_EQ(windows.size(), golden["windows"].get<size_t>());
  for (const KeptWeights kept : {KeptWeights::kExact, KeptWeights::kAuto}) {
    const auto ops = make_device("cpu", {.threads = 0, .isa = {}, .weights = kept});
    const auto model = Model::load(*ops, file_, options.window);
    const auto engine = open_engine(*ops, *model, {}, options.window);
    const double value = measure_perplexity(*engine, windows, options, {}).value();
    std::printf("perplexity over %zu windows: %.4f, transformers %.4f\n", windows.size(), value,
                golden["value"].get<double>());
    EXPECT_NEAR(value / golden["value"].get<double>(), 1, 0.002);
  }
}

}  // namespace
}  // namespace ashlar::testing
