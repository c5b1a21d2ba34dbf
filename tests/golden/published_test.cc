// SPDX-License-Identifier: Apache-2.0
// Published models (tools/get-model) against transformers in fp32 on the same numbers: tokens of prompts and of many
// texts, greedy answers and the perplexity of a text. In long runs, where the files are there.

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
#include "unit/text/tokenizer_goldens.h"

namespace ashlar::testing {
namespace {

struct Published {
  const char* name;
  const char* file;
  size_t answers;
};

void PrintTo(const Published& model, std::ostream* out) { *out << model.name; }

class PublishedModels : public ::testing::TestWithParam<Published> {
 protected:
  void SetUp() override {
    if (std::getenv("ASHLAR_LONG_TESTS") == nullptr) GTEST_SKIP() << "only in long runs";
    const std::string name = GetParam().name;
    if (!std::filesystem::exists(file_)) GTEST_SKIP() << "tools/get-model " << name << " fetches the model";
    goldens_ = read_json_file(data_folder() / "gguf" / (name + ".json"));
  }

  const std::filesystem::path root_ = ASHLAR_SOURCE_DIR;
  const std::filesystem::path file_ = root_ / "build/models" / GetParam().file;
  Json goldens_;
};

TEST_P(PublishedModels, HasTheIdsOfTexts) {
  const Tokenizer tokenizer = Tokenizer::from_model(file_);
  const test::GoldenSums sums(goldens_["strings"]);
  const std::vector<std::string>& strings = test::golden_strings();
  ASSERT_EQ(sums.size(), strings.size());
  test::Crc all;
  for (size_t i = 0; i < strings.size(); ++i) {
    const std::vector<int32_t> ids = tokenizer.encode(strings[i], {.parse_special = goldens_["specials_in_text"]});
    EXPECT_TRUE(sums.matches(i, ids)) << "text " << i << ": " << strings[i].substr(0, 200) << "\n" << test::shown(ids);
    all.add(ids);
  }
  EXPECT_EQ(all.value(), sums.of_all());
}

TEST_P(PublishedModels, AnswersAsTransformersDoes) {
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, file_, 256);
  const Tokenizer tokenizer = Tokenizer::from_model(file_);
  const std::string form = goldens_["prompt"];
  ASSERT_EQ(goldens_["answers"].size(), GetParam().answers);
  for (const Json& golden : goldens_["answers"]) {
    const std::string question = golden["question"];
    const auto ids = golden["prompt_ids"].get<std::vector<int32_t>>();
    std::string prompt = form;
    const EncodeOptions options = {.add_special_tokens = !goldens_["first"].empty()};
    EXPECT_EQ(tokenizer.encode(prompt.replace(form.find("{}"), 2, question), options), ids) << question;
    const auto want = golden["tokens"].get<std::vector<int32_t>>();
    DirectDecoder decoder(*model, nullptr, static_cast<int32_t>(ids.size() + want.size()) + 1);
    const std::vector<int32_t> got = decoder.greedy(ids, static_cast<int32_t>(want.size()), {});
    const auto differs = std::mismatch(want.begin(), want.end(), got.begin()).first - want.begin();
    if (differs == static_cast<std::ptrdiff_t>(want.size())) continue;
    // Tokens whose logit was less than 0.05 above another's may change places where weights are rounded to bf16.
    const auto near = golden["near"].get<std::vector<std::ptrdiff_t>>();
    EXPECT_NE(std::find(near.begin(), near.end(), differs), near.end()) << question << ": token " << differs;
  }
}

// With the file's numbers in bf16, and in the bits that the file has.
TEST_P(PublishedModels, PredictsATextAsTransformersDoes) {
  const Json& golden = goldens_["perplexity"];
  std::ifstream file(root_ / golden["text"].get<std::string>());
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  PerplexityOptions options;
  options.window = golden["window"];
  std::optional<int32_t> first;
  if (!goldens_["first"].empty()) first = goldens_["first"][0].get<int32_t>();
  const auto windows = text_windows(Tokenizer::from_model(file_).encode(text), first, options);
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

INSTANTIATE_TEST_SUITE_P(All, PublishedModels,
                         ::testing::Values(Published{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 50},
                                           Published{"gemma3", "gemma-3-270m-q4_k_m.gguf", 12}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ashlar::testing
