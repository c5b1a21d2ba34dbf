// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <utility>

#include "device/sampling/noise.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

SamplingParams read_params(const Json& golden) {
  SamplingParams params;
  params.temperature = golden["temperature"];
  params.top_k = golden["top_k"];
  params.top_p = golden["top_p"];
  params.min_p = golden["min_p"];
  params.repetition_penalty = golden["repetition_penalty"];
  params.presence_penalty = golden["presence_penalty"];
  params.frequency_penalty = golden["frequency_penalty"];
  return params;
}

// Kept sets and probabilities as Hugging Face's logits processors compute them.
TEST(Filters, MatchGoldens) {
  const Json goldens = read_json_file(data_folder() / "sampling" / "filters.json");
  ASSERT_GE(goldens.size(), 40U);
  for (const Json& golden : goldens) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const SamplingParams params = read_params(golden);
    auto logits = golden["logits"].get<std::vector<float>>();
    const auto vocab = static_cast<int32_t>(logits.size());
    TokenCounts counts;
    counts.reserve(vocab);
    for (const int32_t id : golden["prompt"].get<std::vector<int32_t>>()) counts.add_prompt(id);
    for (const int32_t id : golden["output"].get<std::vector<int32_t>>()) counts.add_answer(id);
    adjust_logits(logits.data(), vocab, params, {&counts}, nullptr);
    for (int32_t i = 0; i < vocab; ++i) ASSERT_NEAR(logits[i], golden["adjusted"][i].get<double>(), 1e-5) << i;

    std::vector<Candidate> kept;
    filter_candidates(logits.data(), vocab, params, nullptr, kept);
    std::sort(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
    const auto ids = golden["kept"].get<std::vector<int32_t>>();
    const auto probabilities = golden["probabilities"].get<std::vector<double>>();
    ASSERT_EQ(kept.size(), ids.size());
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(kept[i].id, ids[i]);
      EXPECT_NEAR(kept[i].probability, probabilities[i], 1e-5);
    }
  }
}

std::vector<float> random_logits(uint32_t seed, int32_t vocab, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// However far a row's likely tokens lie apart: what a list of all of them, sorted, comes to.
TEST(Filters, KeepWhatAListOfAllTokensWould) {
  for (uint32_t trial = 0; trial < 120; ++trial) {
    const int32_t vocab = trial % 3 == 0 ? 20000 : 700;
    std::vector<float> logits = random_logits(trial, vocab, 0.2F + 0.7F * static_cast<float>(trial % 8));
    if (trial % 4 == 1) {  // many ties
      for (float& logit : logits) logit = std::round(2 * logit) / 2;
    }
    SamplingParams params;
    params.temperature = 0.4 + 0.3 * (trial % 5);
    params.top_p = trial % 5 == 4 ? 1.0 : 0.3 + 0.17 * (trial % 5);
    params.min_p = trial % 7 == 6 ? 0.02 : 0.0;
    SCOPED_TRACE("trial " + std::to_string(trial) + ", top_p " + std::to_string(params.top_p));
    std::vector<std::pair<double, int32_t>> all;  // minus the probability, so that ties go by id
    double total = 0;
    const double highest = *std::max_element(logits.begin(), logits.end());
    for (const float logit : logits) total += std::exp((logit - highest) / params.temperature);
    for (int32_t id = 0; id < vocab; ++id)
      all.emplace_back(-std::exp((logits[id] - highest) / params.temperature) / total, id);
    std::sort(all.begin(), all.end());
    double before = 0, kept_mass = 0;
    size_t kept = 0;
    for (; kept < all.size() && (kept == 0 || before < params.top_p || params.top_p == 1.0); ++kept) {
      if (all[kept].first > params.min_p * all[0].first) break;
      before -= all[kept].first;
      if (-all[kept].first >= -all[0].first * std::exp(-40.0)) kept_mass = before;  // what is offered at all
    }
    std::vector<Candidate> found;
    filter_candidates(logits.data(), vocab, params, nullptr, found);
    // One more or less where the mass is top-p to the last digit.
    ASSERT_NEAR(static_cast<double>(found.size()), static_cast<double>(kept), params.top_p < 1.0 ? 1.0 : 0.0);
    const auto probability = [&](int32_t id) { return std::exp((logits[id] - highest) / params.temperature) / total; };
    for (size_t i = 0; i < std::min(found.size(), kept); ++i) {
      // What differs by less than a float can show is in the order of ids.
      ASSERT_NEAR(probability(found[i].id), -all[i].first, 1e-6 * -all[i].first) << i;
      ASSERT_NEAR(found[i].probability, -all[i].first / kept_mass, 2e-4 * found[0].probability) << i;
    }
    std::set<int32_t> ids;
    for (const Candidate& candidate : found) ids.insert(candidate.id);
    ASSERT_EQ(ids.size(), found.size());
  }
}

// The pruned search must find what the formula says, over all tokens.
TEST(GumbelMax, EqualsTheFullArgmax) {
  SamplerScratch scratch;
  for (uint32_t trial = 0; trial < 400; ++trial) {
    const int32_t vocab = 1 + static_cast<int32_t>(trial * 7 % 1500);
    const std::vector<float> logits = random_logits(trial, vocab, 0.5F + static_cast<float>(trial % 9));
    SamplingParams params;
    params.temperature = 0.3 + 0.2 * (trial % 7);
    params.seed = trial * 977;
    const auto position = static_cast<int32_t>(trial);
    int32_t best = -1;
    double best_score = -1e300;
    for (int32_t id = 0; id < vocab; ++id) {
      const uint32_t word = noise::word(params.seed, position, id, noise::Domain::kGumbel);
      const double score = logits[id] / params.temperature - std::log(-std::log((word + 0.5) / 4294967296.0));
      if (score > best_score) {
        best_score = score;
        best = id;
      }
    }
    EXPECT_EQ(sample_token(logits.data(), vocab, params, position, nullptr, scratch), best) << trial;
  }
}

TEST(GumbelMax, DrawsWithTheRightFrequencies) {
  constexpr int kDraws = 100000;
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -1.0F, 0.5F, 1.7F};
  for (const double top_p : {1.0, 0.8}) {
    SamplingParams params;
    params.temperature = 0.9;
    params.top_p = top_p;
    params.seed = 11;
    std::vector<Candidate> kept;
    filter_candidates(logits.data(), 6, params, nullptr, kept);
    std::vector<double> expected(6);
    for (const Candidate& candidate : kept) expected[candidate.id] = candidate.probability;
    std::vector<int> counts(6);
    SamplerScratch scratch;
    for (int i = 0; i < kDraws; ++i) ++counts[sample_token(logits.data(), 6, params, i, nullptr, scratch)];
    for (int id = 0; id < 6; ++id) {
      const double sigma = std::sqrt(kDraws * expected[id] * (1 - expected[id]));
      EXPECT_NEAR(counts[id], kDraws * expected[id], 3 * sigma + 1e-9) << "token " << id << ", top_p " << top_p;
    }
  }
}

TEST(Greedy, TakesTheLowestIdOfATie) {
  const std::vector<float> logits = {1.0F, 3.0F, 3.0F, 2.0F};
  SamplerScratch scratch;
  EXPECT_EQ(sample_token(logits.data(), 4, {}, 0, nullptr, scratch), 1);
}

// Down to where one over the temperature is infinite.
TEST(Sampler, TakesTheLikeliestAsTheTemperatureVanishes) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  SamplerScratch scratch;
  for (const std::vector<float>& logits : std::vector<std::vector<float>>{
           {kMasked, -3.0F, -2.0F, kMasked}, {1.0F, 0.0F, 1.5F, kMasked}, {0.0F, -1.0F, 0.25F, 0.125F}}) {
    for (const double temperature : {1e-6, 1e-20, 1e-30, 1e-38, 1e-45, 1e-300, 2.2e-311, 5e-324}) {
      for (const double top_p : {1.0, 0.5, 2.2e-16}) {
        for (const int32_t top_k : {0, 2}) {
          SamplingParams params;
          params.temperature = temperature;
          params.top_p = top_p;
          params.top_k = top_k;
          EXPECT_EQ(sample_token(logits.data(), 4, params, 7, nullptr, scratch), 2) << temperature << " " << top_p;
        }
      }
    }
  }
}

TEST(Sampler, SurvivesLogitsThatAreNotNumbers) {
  const std::vector<float> logits(8, std::nanf(""));
  SamplerScratch scratch;
  for (const double temperature : {0.0, 1.0}) {
    for (const double top_p : {1.0, 0.5}) {
      SamplingParams params;
      params.temperature = temperature;
      params.top_p = top_p;
      const int32_t token = sample_token(logits.data(), 8, params, 0, nullptr, scratch);
      EXPECT_TRUE(token >= 0 && token < 8);
    }
  }
}

// A drafter with a reduced vocabulary draws the same token as the full one when the target's choice is in it.
TEST(IdMap, SharesNoiseAndAdjustmentsWithTheTarget) {
  constexpr int32_t kVocab = 60;
  std::vector<int32_t> map;
  for (int32_t id = 1; id < kVocab; id += 2) map.push_back(id);
  SamplerScratch scratch;
  for (uint32_t trial = 0; trial < 200; ++trial) {
    std::vector<float> full = random_logits(trial, kVocab, 2.0F);
    for (int32_t id = 0; id < kVocab; id += 2) full[id] = -1000.0F;
    std::vector<float> reduced;
    for (const int32_t id : map) reduced.push_back(full[id]);
    SamplingParams params;
    params.temperature = trial % 3 == 0 ? 0.0 : 0.8;
    params.top_k = trial % 2 == 0 ? 5 : 0;
    params.repetition_penalty = 1.2;
    params.logit_bias = {{map[trial % map.size()], 2.0F}};
    params.seed = trial;
    TokenCounts counts;
    counts.reserve(kVocab);
    counts.add_prompt(map[3]);
    counts.add_answer(map[8]);
    adjust_logits(full.data(), kVocab, params, {&counts}, nullptr);
    adjust_logits(reduced.data(), static_cast<int32_t>(reduced.size()), params, {&counts}, map.data());
    EXPECT_EQ(sample_token(reduced.data(), static_cast<int32_t>(reduced.size()), params, 9, map.data(), scratch),
              sample_token(full.data(), kVocab, params, 9, nullptr, scratch));
  }
}

TEST(Logprobs, AreTheLogSoftmaxAndListTheMostLikely) {
  const std::vector<float> logits = random_logits(3, 200, 3.0F);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const LogNormaliser normaliser = normalise(logits.data(), 200);
  EXPECT_NEAR(normaliser.logprob(logits[17]), logits[17] - std::log(sum), 1e-5);
  std::vector<int32_t> order(200);
  for (int32_t i = 0; i < 200; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  for (const int32_t tops : {0, 1, 5, 20}) {
    TokenLogprobs out;
    top_logprobs(logits.data(), 200, normaliser, tops, out);
    ASSERT_EQ(out.n_top, tops);
    for (int32_t i = 0; i < tops; ++i) {
      EXPECT_EQ(out.top_ids[i], order[i]);
      EXPECT_NEAR(out.top_values[i], logits[order[i]] - std::log(sum), 1e-5);
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
