// Recalled drafts and rejection sampling, through a whole engine: a draft without a drafter's distribution is certain,
// and the tokens have the target's frequencies all the same.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "equivalence/roads.h"
#include "golden/golden_data.h"
#include "text/tokenizer.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kKept = 4;  // tokens that the filter leaves
constexpr double kTemperature = 1.2;

SamplingParams sampling(uint64_t seed) {
  SamplingParams params;
  params.temperature = kTemperature;
  params.top_k = kKept;
  params.seed = seed;
  return params;
}

// Probabilities of what may follow `prompt`, from the log-probabilities of a plain answer.
std::map<int32_t, double> next_tokens(Engine& plain, const std::vector<int32_t>& prompt) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = 1;
  request.sampling.top_logprobs = kKept;
  const auto queue = std::make_shared<EventQueue>();
  request.sink = queue;
  EXPECT_TRUE(plain.submit(std::move(request)).ok());
  std::map<int32_t, double> out;
  double sum = 0;
  for (;;) {
    const Event event = queue->next();
    if (std::holds_alternative<EndEvent>(event)) break;
    const TokenLogprobs& top = std::get<TokenChunk>(event).logprobs.at(0);
    for (int32_t i = 0; i < kKept; ++i) sum += out[top.top_ids[i]] = std::exp(top.top_values[i] / kTemperature);
  }
  for (auto& [id, probability] : out) probability /= sum;
  return out;
}

TEST(RecalledDrafts, RejectionHasTheTargetsFrequencies) {
  constexpr int32_t kLongest = 128, kAnswers = 2000;
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", kLongest);
  const Tokenizer tokenizer = Tokenizer::from_file(models_folder() / "pebble-11m" / "tokenizer.json");
  const std::vector<int32_t> prompt = tokenizer.encode(
      "The wall was built of grey stone, and the gate was made of oak. The wall was built of grey stone, and the");
  DecoderSpec spec{"dflash", models_folder() / "pebble-11m-dflash", {}};
  spec.recall = RecallUse::kAlways;
  EngineOptions options;
  options.max_sequences = 16;
  options.kv_pages = 16 * kLongest / kPageTokens;
  Engine engine(*ops, make_decoder(*model, spec), options);
  std::map<std::vector<int32_t>, int32_t> counts;
  for (int32_t first = 0; first < kAnswers; first += options.max_sequences) {
    std::vector<Request> requests;
    for (int32_t i = 0; i < options.max_sequences; ++i) {
      Request request;
      request.prompt = prompt;
      request.max_tokens = 8;
      request.sampling = sampling(static_cast<uint64_t>(first + i));
      request.sampling.scheme = SamplingScheme::kRejection;
      requests.push_back(std::move(request));
    }
    for (const Answer& answer : run_together(engine, std::move(requests))) {
      ASSERT_NE(answer.end.reason, FinishReason::kError) << answer.end.error;
      for (size_t n = 0; n <= answer.tokens.size(); ++n) {
        ++counts[std::vector<int32_t>(answer.tokens.begin(), answer.tokens.begin() + static_cast<int64_t>(n))];
      }
    }
  }
  const EngineCounters counters = engine.counters();
  EXPECT_GT(counters.recalled, static_cast<uint64_t>(kAnswers) / 4);
  Engine plain(*ops, make_decoder(*model, {}), options);
  int32_t judged = 0;
  for (const auto& [begun, n] : counts) {
    if (n < 200) continue;
    std::vector<int32_t> text = prompt;
    text.insert(text.end(), begun.begin(), begun.end());
    for (const auto& [id, p] : next_tokens(plain, text)) {
      std::vector<int32_t> longer = begun;
      longer.push_back(id);
      const auto found = counts.find(longer);
      const double share = (found == counts.end() ? 0.0 : found->second) / n;
      EXPECT_NEAR(share, p, 4 * std::sqrt(p * (1 - p) / n) + 1e-3) << "token " << id << " behind " << begun.size();
      ++judged;
    }
  }
  EXPECT_GE(judged, 5 * kKept);
}

}  // namespace
}  // namespace ashlar::testing
