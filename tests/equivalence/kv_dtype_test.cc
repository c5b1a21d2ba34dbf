// SPDX-License-Identifier: Apache-2.0
// Caches of codes: what they cost in memory and in quality, and that a request's tokens depend on them alone.
// Invariants: same-tokens-by-every-configuration, published-means-final.

#include "base/error.h"
#include "equivalence/block_suite.h"
#include "equivalence/legal_text.h"
#include "equivalence/suite.h"

namespace ashlar::testing {
namespace {

std::unique_ptr<Ops> device(int32_t threads, KvDType kv_dtype, const std::string& name = "cpu") {
  return make_device(name, {.threads = threads, .isa = {}, .kv_dtype = kv_dtype});
}

class CodedCache : public ::testing::TestWithParam<KvDType> {};

// Every method once with one of the two, each in another of the ways in which all are run elsewhere, and by another
// sampling; once with each in the long tier.
TEST_P(CodedCache, EveryMethodGivesTheSameTokens) {
  const auto one = device(1, GetParam());
  suite::EquivalenceSuite suite(*one);
  const size_t turn = GetParam() == KvDType::kTq4 ? 1 : 0;
  const auto ops = device(2, GetParam());
  suite.run(*ops, std::string(name_of(GetParam())), [turn](size_t configuration, size_t sampling) {
    const size_t method = configuration / 8;
    if (!is_long() && method / 2 % 2 != turn) return false;  // two in a row go in unlike ways
    return suite::in_one_way(configuration, turn) && sampling == (method + turn) % 4;
  });
  suite.print();
  EXPECT_GE(suite.comparisons, is_long() ? 280 : 130);
  EXPECT_GT(suite.preemptions, 0U);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
}

TEST_P(CodedCache, BlocksGetTheSameTokens) {
  const auto one = device(1, GetParam());
  const auto two = device(2, GetParam());
  const std::vector<blocks::Way> all = blocks::ways();
  std::vector<blocks::Way> some = {all[1], all[4], all[5]};
  if (!is_long()) some.erase(some.begin() + (GetParam() == KvDType::kTq4 ? 0 : 1));
  blocks::expect_same_by_every_configuration(*one, *two, some);
}

INSTANTIATE_TEST_SUITE_P(Codes, CodedCache, ::testing::Values(KvDType::kInt8, KvDType::kTq4),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(CodedCacheOnRef, DraftsChangeNothing) {
  Configuration drafted;
  drafted.name = "dflash on ref";
  drafted.decoder = {"dflash", models_folder() / "pebble-11m-dflash", {8, 0, 1, DenoiseSchedule::kCosine}};
  const auto ops = device(1, KvDType::kTq4, "ref");
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", suite::kLongest);
  Request request = suite::requests({}, model->config().stop_ids)[0];
  request.max_tokens = 6;
  std::vector<Answer> answers;
  for (const Configuration& configuration : {Configuration{}, drafted}) {
    answers.push_back(run_together(*open_engine(*ops, *model, configuration, suite::kLongest), {request})[0]);
  }
  EXPECT_EQ(answers[0].tokens, answers[1].tokens);
}

TEST(CodedCacheQuality, CodesKeepThePerplexity) {
  const double exact = perplexity_of_legal_text(*device(2, KvDType::kF32));
  const double int8 = perplexity_of_legal_text(*device(2, KvDType::kInt8));
  const double tq4 = perplexity_of_legal_text(*device(2, KvDType::kTq4));
  std::printf("perplexity: f32 %.4f, int8 %.4f (%+.2f %%), tq4 %.4f (%+.2f %%)\n", exact, int8,
              100 * (int8 / exact - 1), tq4, 100 * (tq4 / exact - 1));
  EXPECT_NEAR(int8 / exact, 1, 0.005);
  EXPECT_NEAR(tq4 / exact, 1, 0.02);
  EXPECT_NE(int8, exact);
  EXPECT_NE(tq4, int8);
}

// Of a layer of Qwen3-8B, 16 tokens: docs/serving.md has them a token, of 36 layers.
TEST(CodedCacheMemory, IsAHalfAndAThird) {
  const AttentionShape shape{32, 8, 128, 0.09F};
  const std::vector<std::pair<KvDType, int64_t>> all = {
      {KvDType::kF32, 4096}, {KvDType::kBF16, 2048}, {KvDType::kInt8, 1056}, {KvDType::kTq4, 672}};
  for (const auto& [dtype, bytes] : all) EXPECT_EQ(device(1, dtype)->kv_page_bytes(shape), bytes * 32);
}

TEST(CodedCacheErrors, NameHeadsThatCannotBeCoded) {
  for (const char* name : {"cpu", "ref"}) {
    EXPECT_THROW(device(1, KvDType::kTq4, name)->kv_page_bytes({4, 2, 80, 0.1F}), Error) << name;
    EXPECT_GT(device(1, KvDType::kInt8, name)->kv_page_bytes({4, 2, 80, 0.1F}), 0) << name;
  }
}

TEST(CodedCacheErrors, NameTheDeviceThatHasNone) {
  const std::vector<std::string> names = device_names();
  if (std::ranges::find(names, "cuda") == names.end()) GTEST_SKIP() << "this build has no cuda device";
  try {
    device(1, KvDType::kF32, "cuda");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuda device keeps no keys and values as f32"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace ashlar::testing
