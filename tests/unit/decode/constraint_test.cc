// SPDX-License-Identifier: Apache-2.0
// Verification under a constraint, on a tiny vocabulary.

#include "decode/constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "unit/decode/verify_rows.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kMaskVocab = 40;  // more than one word of a mask, and not all of the second

// Allows a given set at each place, and remembers what it heard.
struct Script : TokenConstraint {
  std::vector<std::vector<int32_t>> places;  // empty list: anything goes
  std::vector<int32_t> heard;

  bool mask(std::span<uint32_t> allowed) override {
    EXPECT_EQ(allowed.size(), 2U);
    if (heard.size() < places.size() && places[heard.size()].empty()) return false;
    std::fill(allowed.begin(), allowed.end(), 0U);
    if (heard.size() >= places.size()) {
      allowed[1] = ~0U << 8;  // only bits beyond the vocabulary
      return true;
    }
    for (const int32_t id : places[heard.size()]) allowed[id / 32] |= 1U << (id % 32);
    return true;
  }
  void advance(int32_t token) override { heard.push_back(token); }
};

std::vector<float> logits_of(int32_t rows) {
  std::vector<float> logits(rows * kMaskVocab);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(std::sin(2.3 * static_cast<double>(i)) * 3);
  return logits;
}

struct Outcome {
  SpanResult result;
  std::vector<TokenLogprobs> logprobs = std::vector<TokenLogprobs>(kMaxWidth);
};

Outcome verify(Script& script, SamplingParams params, std::vector<int32_t> drafts) {
  Slot slot;
  slot.limit = 1 << 20;
  slot.params = params;
  slot.constraint = &script;
  if (params.has_penalties()) slot.counts.reserve(kMaskVocab);
  const auto rows = static_cast<int32_t>(drafts.size()) + 1;
  std::vector<float> logits = logits_of(rows);
  VerifyInput input;
  input.n = rows;
  input.drafts = drafts.data();
  Outcome outcome;
  outcome.result = verify_rows(logits, input, slot, outcome.logprobs.data());
  EXPECT_EQ(slot.done, outcome.result.end != SpanEnd::kRunning);
  return outcome;
}

std::vector<SamplingParams> samplings() {
  std::vector<SamplingParams> all(5);
  all[1].temperature = 1.0;
  all[2].temperature = 1.0;
  all[2].top_k = 30;  // more than are allowed
  all[3].temperature = 0.9;
  all[3].scheme = SamplingScheme::kRejection;
  all[4].temperature = 1.0;
  all[4].top_p = 0.9;
  all[4].logit_bias = {{0, 100.0F}};
  all[4].repetition_penalty = 1.3;
  return all;
}

TEST(Constraint, OnlyAllowedTokensAreChosenAndEachIsHeardOnce) {
  for (const SamplingParams& base : samplings()) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Script script;
      script.places = {{5, 9, 33}, {7}, {1, 2, 3, 39}};
      SamplingParams params = base;
      params.seed = seed;
      const Outcome outcome = verify(script, params, {9, 7});
      const SpanResult& result = outcome.result;
      ASSERT_EQ(std::vector<int32_t>(result.tokens, result.tokens + result.n_tokens), script.heard);
      for (int32_t i = 0; i < result.n_tokens; ++i) {
        const auto& place = script.places[i];
        ASSERT_NE(std::find(place.begin(), place.end(), result.tokens[i]), place.end()) << "place " << i;
      }
      ASSERT_EQ(result.n_tokens, result.tokens[0] == 9 ? 3 : 1);  // 7 is the only choice after the accepted 9
    }
  }
}

TEST(Constraint, RejectionKeepsTheMaskedDistribution) {
  const std::vector<float> logits = logits_of(1);
  std::map<int32_t, double> expected;
  double total = 0;
  for (const int32_t id : {5, 9, 33}) total += expected[id] = std::exp(logits[id]);
  constexpr int kDraws = 20000;
  std::map<int32_t, int> counts;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    Script script;
    script.places = {{5, 9, 33}, {}};
    SamplingParams params;
    params.temperature = 1.0;
    params.scheme = SamplingScheme::kRejection;
    params.seed = seed;
    ++counts[verify(script, params, {seed % 2 == 0 ? 9 : 0}).result.tokens[0]];
  }
  for (const auto& [id, weight] : expected) {
    const double p = weight / total;
    EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << id;
  }
}

TEST(Constraint, LogProbabilitiesAreOfTheRawLogits) {
  const std::vector<float> logits = logits_of(1);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit);
  Script script;
  script.places = {{4}};
  SamplingParams params;
  params.top_logprobs = 2;
  const Outcome outcome = verify(script, params, {});
  EXPECT_EQ(outcome.result.tokens[0], 4);
  EXPECT_NEAR(outcome.logprobs[0].token, logits[4] - std::log(sum), 1e-5);
  EXPECT_EQ(outcome.logprobs[0].n_top, 2);
  EXPECT_NE(outcome.logprobs[0].top_ids[0], 4);
}

TEST(Constraint, NothingLeftEndsTheSpanBeforeThatToken) {
  for (const SamplingParams& params : samplings()) {
    Script script;
    script.places = {{9}, {7}};
    const Outcome outcome = verify(script, params, {9, 7});
    EXPECT_EQ(outcome.result.end, SpanEnd::kError);
    EXPECT_EQ(outcome.result.n_tokens, 2);
    EXPECT_EQ(script.heard, (std::vector<int32_t>{9, 7}));
  }
}

TEST(Constraint, WhereAnythingGoesTheTokensAreThoseWithoutOne) {
  for (SamplingParams params : samplings()) {
    for (params.seed = 0; params.seed < 50; ++params.seed) {
      Script free;
      free.places = {{}};
      Script all;
      all.places = {{}};
      for (int32_t id = 0; id < kMaskVocab; ++id) all.places[0].push_back(id);
      EXPECT_EQ(verify(free, params, {}).result.tokens[0], verify(all, params, {}).result.tokens[0]);
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
