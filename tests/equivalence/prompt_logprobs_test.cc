// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of a prompt have the same bits whatever the chunks, the batch, the cache, preemption and the
// drafter, and are those of PyTorch.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"
#include "measure/evaluation/logit_divergence.h"
#include "measure/evaluation/perplexity.h"

namespace ashlar::testing {
namespace {

/// Keeps what it is given; each token of the prompt must come once, in order.
class PromptSink final : public EventSink {
 public:
  explicit PromptSink(int32_t first) : next_(first) {}
  void on_prompt(const PromptEvent& event) override {
    EXPECT_EQ(event.first, next_);
    EXPECT_EQ(answer_tokens_, 0);
    next_ += event.n;
    tokens.insert(tokens.end(), event.tokens, event.tokens + event.n);
  }
  void on_tokens(const TokensEvent& event) override { answer_tokens_ += event.n; }
  void on_end(EndEvent event) noexcept override { end = std::move(event); }

  std::vector<PromptToken> tokens;
  EndEvent end;
  int32_t answer_tokens() const { return answer_tokens_; }

 private:
  int32_t next_;
  int32_t answer_tokens_ = 0;
};

bool same_bits(const PromptToken& a, const PromptToken& b) {
  if (a.rank != b.rank || a.logprobs.n_top != b.logprobs.n_top) return false;
  const auto n = static_cast<size_t>(a.logprobs.n_top);
  return std::memcmp(&a.logprobs.token, &b.logprobs.token, sizeof(float)) == 0 &&
         std::memcmp(a.logprobs.top_ids, b.logprobs.top_ids, n * sizeof(int32_t)) == 0 &&
         std::memcmp(a.logprobs.top_values, b.logprobs.top_values, n * sizeof(float)) == 0;
}

class PromptLogprobsTest : public ::testing::Test {
 protected:
  PromptLogprobsTest()
      : ops_(make_device("cpu", {.threads = 2, .isa = {}})),
        model_(Model::load(*ops_, models_folder() / "pebble-11m", 512)) {
    const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
    for (int i = 0; i < 4; ++i) {
      std::vector<int32_t> prompt;
      for (int k = i; prompt.size() < 300; ++k) {
        for (const char* part : {"prompt_ids", "greedy_ids"}) {
          const auto ids = json["cases"][k % 24][part].get<std::vector<int32_t>>();
          prompt.insert(prompt.end(), ids.begin(), ids.end());
        }
      }
      prompt.resize(300 + 7 * static_cast<size_t>(i));
      prompts_.push_back(std::move(prompt));
    }
  }

  Request request(int32_t prompt, int32_t from = 0) const {
    Request out;
    out.prompt = prompts_[static_cast<size_t>(prompt)];
    out.prompt_logprobs = {from, 3};
    out.prompt_only = true;
    return out;
  }

  std::vector<std::shared_ptr<PromptSink>> run(Engine& engine, std::vector<Request> requests) const {
    std::vector<std::shared_ptr<PromptSink>> sinks;
    for (Request& each : requests) {
      sinks.push_back(std::make_shared<PromptSink>(std::max(each.prompt_logprobs.from, 1)));
      each.sink = sinks.back();
      const Result<RequestId> id = engine.submit(std::move(each));
      EXPECT_TRUE(id.ok()) << id.error();
    }
    engine.wait_idle();
    return sinks;
  }

  void expect_same(const PromptSink& sink, int32_t prompt, int32_t from = 1) {
    const auto& expected = oracle(prompt);
    ASSERT_EQ(sink.tokens.size(), prompts_[static_cast<size_t>(prompt)].size() - static_cast<size_t>(from));
    for (size_t i = 0; i < sink.tokens.size(); ++i) {
      ASSERT_TRUE(same_bits(sink.tokens[i], expected[static_cast<size_t>(from) - 1 + i])) << "token " << from + i;
    }
  }

  /// One chunk, alone, nothing cached.
  const std::vector<PromptToken>& oracle(int32_t prompt) {
    auto& found = oracle_[static_cast<size_t>(prompt)];
    if (!found.empty()) return found;
    const auto engine = open_engine(*ops_, *model_, {}, 512);
    found = run(*engine, {request(prompt)})[0]->tokens;
    return found;
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<PromptToken> oracle_[4];
};

TEST_F(PromptLogprobsTest, ChunksAndBatchesChangeNoBit) {
  for (const int32_t chunk : {16, 64, 256}) {
    for (const int32_t depth : {1, 2}) {
      Configuration configuration;
      configuration.prefill_chunk = chunk;
      configuration.depth = depth;
      const auto engine = open_engine(*ops_, *model_, configuration, 512);
      std::vector<Request> requests = {request(0), request(1), request(2), request(3)};
      requests[1].prompt_only = false;
      requests[1].max_tokens = 5;
      requests[1].stop_ids.clear();
      const auto sinks = run(*engine, std::move(requests));
      for (int32_t i = 0; i < 4; ++i) {
        expect_same(*sinks[static_cast<size_t>(i)], i);
        EXPECT_EQ(sinks[static_cast<size_t>(i)]->end.reason, FinishReason::kLength);
        EXPECT_EQ(sinks[static_cast<size_t>(i)]->answer_tokens(), i == 1 ? 5 : 0);
      }
    }
  }
}

TEST_F(PromptLogprobsTest, DraftersAndNgramsChangeNoBit) {
  Configuration configuration;
  configuration.decoder = {"dflash", models_folder() / "pebble-11m-dflash", {16, 0, 1, DenoiseSchedule::kCosine}};
  const auto engine = open_engine(*ops_, *model_, configuration, 512);
  std::vector<Request> requests = {request(0), request(1)};
  requests[0].prompt_only = false;
  requests[0].max_tokens = 40;
  const auto sinks = run(*engine, std::move(requests));
  for (int32_t i = 0; i < 2; ++i) expect_same(*sinks[static_cast<size_t>(i)], i);
}

// The cache yields no row that scores a token; asking for later tokens takes more from it.
TEST_F(PromptLogprobsTest, CachedPrefixesChangeNoBit) {
  const auto engine = open_engine(*ops_, *model_, {}, 512);
  Request plain = request(0);
  plain.prompt_logprobs = {};
  run(*engine, {plain});
  for (const int32_t from : {0, 17, 100, 299}) {
    const auto sink = run(*engine, {request(0, from)})[0];
    expect_same(*sink, 0, std::max(from, 1));
    const int32_t cached = sink->end.stats.cached_tokens;
    EXPECT_LE(cached, std::max(from, 1) - 1);
    EXPECT_GT(cached, std::max(from, 1) - 1 - kPageTokens);
  }
  const auto beyond = run(*engine, {request(0, 300)})[0];
  EXPECT_TRUE(beyond->tokens.empty());
  EXPECT_EQ(beyond->end.reason, FinishReason::kLength);
}

TEST_F(PromptLogprobsTest, PreemptedPromptsAreToldOnce) {
  Configuration configuration;
  configuration.tight_memory = true;
  configuration.prefill_chunk = 32;
  configuration.depth = 2;
  const auto engine = open_engine(*ops_, *model_, configuration, 512);
  std::vector<Request> requests;
  for (int32_t i = 0; i < 4; ++i) {
    requests.push_back(request(i));
    requests.back().prompt_only = false;
    requests.back().max_tokens = 150;
  }
  const auto sinks = run(*engine, std::move(requests));
  int32_t preemptions = 0;
  for (int32_t i = 0; i < 4; ++i) {
    expect_same(*sinks[static_cast<size_t>(i)], i);
    preemptions += sinks[static_cast<size_t>(i)]->end.stats.preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

TEST_F(PromptLogprobsTest, PromptsOfOneTokenEnd) {
  const auto engine = open_engine(*ops_, *model_, {}, 512);
  Request one = request(0);
  one.prompt.resize(1);
  const auto sink = run(*engine, {one})[0];
  EXPECT_TRUE(sink->tokens.empty());
  EXPECT_EQ(sink->end.reason, FinishReason::kLength);
}

// PyTorch computed them with keys and values in fp32: with those the numbers are its own, and bf16 moves them by its
// rounding, 2^-9 of each key and value.
TEST(PromptLogprobsAgreeWithPyTorch, InBothKindsOfCache) {
  const Json golden = read_json_file(data_folder() / "pebble-11m" / "prompt_logprobs.json");
  for (const auto& [kv_dtype, tolerance] : {std::pair(KvDType::kF32, 1e-4), std::pair(KvDType::kBF16, 1e-2)}) {
    SCOPED_TRACE(tolerance);
    const auto ops = make_device("cpu", {.threads = 2, .isa = {}, .kv_dtype = kv_dtype});
    const auto model = Model::load(*ops, models_folder() / "pebble-11m", 512);
    const auto engine = open_engine(*ops, *model, {}, 512);
    for (const Json& each : golden["cases"]) {
      Request scored;
      scored.prompt = each["ids"].get<std::vector<int32_t>>();
      scored.prompt_logprobs = {0, 3};
      scored.prompt_only = true;
      const auto sink = std::make_shared<PromptSink>(1);
      scored.sink = sink;
      ASSERT_TRUE(engine->submit(std::move(scored)).ok());
      engine->wait_idle();
      ASSERT_EQ(sink->tokens.size(), each["logprobs"].size());
      for (size_t i = 0; i < sink->tokens.size(); ++i) {
        const TokenLogprobs& found = sink->tokens[i].logprobs;
        EXPECT_NEAR(found.token, each["logprobs"][i].get<double>(), tolerance);
        ASSERT_EQ(found.n_top, 3);
        EXPECT_NEAR(found.top_values[0], each["highest"][i].get<double>(), tolerance);
        EXPECT_NEAR(sink->tokens[i].rank, each["ranks"][i].get<int32_t>(), kv_dtype == KvDType::kF32 ? 0 : 1) << i;
      }
    }
  }
}

TEST(PerplexityOfAText, IsThatOfPyTorch) {
  const Json cases = read_json_file(data_folder() / "pebble-11m" / "prompt_logprobs.json")["cases"];
  const auto ops = make_device("cpu", {.threads = 1, .isa = {}, .kv_dtype = KvDType::kF32});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 256);
  Configuration configuration;
  auto engine = open_engine(*ops, *model, configuration, 256);
  PerplexityOptions options;
  options.window = 28;
  std::vector<std::vector<int32_t>> windows;
  double sum = 0;
  int64_t n = 0, likeliest = 0;
  for (const auto& each : cases) {
    const auto cut = text_windows(each["ids"].get<std::vector<int32_t>>(), std::nullopt, options);
    ASSERT_EQ(cut.size(), 1U);
    windows.push_back(cut.front());
    for (size_t token = 14; token < 28; ++token, ++n) {  // its log-probability is that of the row before
      sum -= each["logprobs"][token - 1].get<double>();
      likeliest += each["ranks"][token - 1].get<int32_t>() == 1 ? 1 : 0;
    }
  }
  const Perplexity found = measure_perplexity(*engine, windows, options, {});
  EXPECT_EQ(found.tokens, n);
  EXPECT_EQ(found.windows, 3);
  EXPECT_NEAR(found.nll.value, sum / static_cast<double>(n), 1e-4);
  EXPECT_NEAR(found.value(), std::exp(sum / static_cast<double>(n)), 1e-3);
  EXPECT_DOUBLE_EQ(found.top_share, static_cast<double>(likeliest) / static_cast<double>(n));

  engine.reset();  // the same without an engine, next to another model: of every token the same rows
  const auto other = Model::load(*ops, models_folder() / "pebble-11m-sdar", 256);
  const LogitDivergence itself = measure_divergence(*model, *model, windows, options, {});
  const LogitDivergence apart = measure_divergence(*model, *other, windows, options, {});
  EXPECT_EQ(itself.tokens(), n);
  EXPECT_EQ(itself.kl.value, 0);
  EXPECT_EQ(itself.same_top, 1);
  for (const LogitDivergence& divergence : {itself, apart}) {
    EXPECT_NEAR(divergence.base_nll.value, sum / static_cast<double>(n), 1e-4);
  }
  EXPECT_GT(apart.kl.value, 0.01);
}

TEST(TextWindows, HoldTheTextOnceWithoutItsRest) {
  std::vector<int32_t> text(23);
  std::iota(text.begin(), text.end(), 100);
  PerplexityOptions options;
  options.window = 5;
  const auto plain = text_windows(text, std::nullopt, options);
  ASSERT_EQ(plain.size(), 4U);
  EXPECT_EQ(plain[1], (std::vector<int32_t>{105, 106, 107, 108, 109}));
  options.limit = 2;
  const auto begun = text_windows(text, 1, options);
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_EQ(begun[1], (std::vector<int32_t>{1, 106, 107, 108, 109}));
}

TEST(PromptLogprobsOfBlocks, AreRefusedInWords) {
  const auto ops = make_device("cpu", {.threads = 1, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m-sdar", 256);
  Configuration configuration;
  const auto engine = open_engine(*ops, *model, configuration, 256);
  Request scored;
  scored.prompt = {5, 6, 7};
  scored.prompt_only = true;
  scored.prompt_logprobs = {0, 0};
  scored.sink = std::make_shared<PromptSink>(1);
  EXPECT_FALSE(engine->submit(scored).ok());
  scored.prompt_logprobs = {};
  const auto sink = std::make_shared<PromptSink>(1);
  scored.sink = sink;
  ASSERT_TRUE(engine->submit(scored).ok());
  engine->wait_idle();
  EXPECT_EQ(sink->end.reason, FinishReason::kLength);
  EXPECT_EQ(sink->answer_tokens(), 0);
}

}  // namespace
}  // namespace ashlar::testing
