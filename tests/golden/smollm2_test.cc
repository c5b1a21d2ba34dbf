// SPDX-License-Identifier: Apache-2.0
// SmolLM2-135M-Instruct in Q4_1 (tools/get-smollm2) against transformers in fp32 on the same numbers: tokens of
// prompts, and greedy answers. In long runs, where the file is there.

#include <gtest/gtest.h>

#include <cstdlib>

#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::testing {
namespace {

constexpr double kNearEqual = 0.05;  // logits closer than that may change places when weights are rounded to bf16

TEST(SmolLm2, AnswersAsTransformersDoes) {
  const std::filesystem::path file =
      std::filesystem::path(ASHLAR_SOURCE_DIR) / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (std::getenv("ASHLAR_LONG_TESTS") == nullptr) GTEST_SKIP() << "only in long runs";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "tools/get-smollm2 fetches the model";
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, file, 256);
  const Tokenizer tokenizer = Tokenizer::from_model(file);
  const Json goldens = read_json_file(data_folder() / "gguf" / "smollm2.json");
  ASSERT_GE(goldens.size(), 20U);
  for (const Json& golden : goldens) {
    const std::string prompt = golden["prompt"];
    const auto ids = golden["prompt_ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.encode(prompt), ids) << prompt;
    const auto want = golden["tokens"].get<std::vector<int32_t>>();
    const auto margins = golden["margins"].get<std::vector<double>>();  // of the best token over the next, each step
    DirectDecoder decoder(*model, nullptr, static_cast<int32_t>(ids.size() + want.size()) + 1);
    const std::vector<int32_t> got = decoder.greedy(ids, static_cast<int32_t>(want.size()), {});
    const auto differs = std::mismatch(want.begin(), want.end(), got.begin()).first - want.begin();
    if (differs == static_cast<std::ptrdiff_t>(want.size())) continue;
    EXPECT_LT(margins[static_cast<size_t>(differs)], kNearEqual) << prompt << ": token " << differs;
  }
}

}  // namespace
}  // namespace ashlar::testing
