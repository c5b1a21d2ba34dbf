// SPDX-License-Identifier: Apache-2.0
// A token chosen from a list is the one chosen from the whole row.

#include "device/sampling/listed_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "device/sampling/choose_row.h"
#include "device/sampling/noise.h"

namespace ashlar {
namespace {

// What a device finds, with nothing in the list that need not be there.
ListedRow list_of(const std::vector<float>& raw, const std::vector<float>& logits, const RowRequest& request,
                  const ListWish& wish) {
  ListedRow row;
  const double inverse = request.params->greedy() ? 1.0 : 1.0 / request.params->temperature;
  std::vector<ListedRow::Token> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto column = static_cast<int32_t>(i);
    if (std::isfinite(logits[i]) && column != request.excluded) all.push_back({column, logits[i], raw[i]});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  row.highest = all.front().logit;
  for (const auto& [column, logit, before] : all) {
    const double below = static_cast<double>(logit) - row.highest;
    row.sum += std::exp(below);
    row.weighted += std::exp(below) * below;
    row.tempered += std::exp(below * inverse);
  }
  double mass = 0;
  const auto score = [&](const ListedRow::Token& token) {
    const uint32_t word = noise::word(request.params->seed, request.position, token.column, noise::Domain::kGumbel);
    return token.logit * inverse + noise::gumbel(word);
  };
  for (const auto& token : all) {
    const double below = (static_cast<double>(token.logit) - row.highest) * inverse;
    if (wish.with_noise) {
      if (row.tokens.empty() || score(token) > score(row.tokens.front())) row.tokens = {token};
    } else if (wish.least > 0) {
      if (static_cast<int32_t>(row.tokens.size()) < wish.least) row.tokens.push_back(token);
    } else if (mass < wish.share * row.tempered && below >= wish.floor) {
      row.tokens.push_back(token);
      mass += std::exp(below);
    }
  }
  std::reverse(row.tokens.begin(), row.tokens.end());  // in no order
  return row;
}

TEST(ListedRow, ChoosesWhatTheWholeRowDoes) {
  std::mt19937 random(3);
  SamplerScratch scratch;
  int32_t answered = 0, adjusted_rows = 0;
  for (int32_t round = 0; round < 6000; ++round) {
    const int32_t vocab = 1 + static_cast<int32_t>(random() % 700);
    const bool has_ties = random() % 3 == 0;
    std::vector<float> logits(static_cast<size_t>(vocab));
    for (float& logit : logits) {
      logit = std::normal_distribution<float>(0, 4)(random);
      if (has_ties) logit = std::round(logit);
      if (random() % 17 == 0) logit = random() % 2 == 0 ? std::nanf("") : -std::numeric_limits<float>::infinity();
    }
    logits[static_cast<size_t>(vocab / 2)] = 1;
    SamplingParams params;
    params.seed = random();
    params.temperature = std::array{0.0, 0.3, 1.0, 2.5}[random() % 4];
    params.top_k = std::array{0, 0, 1, 5, 40}[random() % 5];
    params.top_p = std::array{1.0, 1.0, 0.999999, 0.95, 0.5, 0.0}[random() % 6];
    params.min_p = std::array{0.0, 0.0, 0.05, 0.9}[random() % 4];
    RowRequest request;
    request.params = &params;
    request.position = static_cast<int32_t>(random() % 1000);
    request.pick = random() % 3 == 0 ? Pick::kLikeliest : Pick::kToken;
    if (request.pick == Pick::kToken && random() % 2 == 0) request.top_logprobs = static_cast<int32_t>(random() % 21);
    if (request.pick == Pick::kToken && random() % 3 == 0) request.statistics = true;
    if (vocab > 2 && random() % 4 == 0) request.excluded = vocab - 1;
    std::vector<int32_t> id_map(static_cast<size_t>(vocab));
    for (int32_t i = 0; i < vocab; ++i) id_map[static_cast<size_t>(i)] = 2 * i + 3;
    if (random() % 4 == 0) request.id_map = id_map.data();

    TokenCounts counts;
    counts.reserve(vocab);
    std::vector<uint32_t> mask;
    const int32_t drafts[2] = {vocab / 3, vocab / 2};
    if (request.id_map == nullptr && random() % 3 == 0) {
      params.repetition_penalty = 1.3;
      params.frequency_penalty = 0.4;
      for (int32_t i = 0; i < 9; ++i) counts.add_answer(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
      counts.add_prompt(vocab / 2);
      request.seen = {&counts, drafts, -1};
    }
    if (request.id_map == nullptr && random() % 3 == 0) params.logit_bias = {{vocab / 2, 4.0F}, {0, -2.5F}};
    if (random() % 3 == 0) {
      for (int32_t i = 0; i < vocab; i += 32) mask.push_back(random());
      mask[static_cast<size_t>(vocab / 2 / 32)] |= 1U << (vocab / 2 % 32);
      request.allowed = mask;
    }
    std::vector<float> adjusted = logits;
    if (!mask.empty()) mask_logits(adjusted.data(), vocab, mask);
    adjust_logits(adjusted.data(), vocab, params, request.seen, request.id_map);

    const RowWishes wishes = wishes_of(request, vocab);
    if (!wishes.any) continue;
    ++answered;
    adjusted_rows += wishes.adjusted ? 1 : 0;
    ListedRow raw, likely, draw;
    if (wishes.raw) raw = list_of(logits, logits, request, wishes.of_raw);
    if (wishes.likely) likely = list_of(logits, adjusted, request, wishes.of_likely);
    if (wishes.draw) draw = list_of(logits, adjusted, request, wishes.of_draw);
    const RowChoice found = choose_listed(request, vocab, wishes.raw ? &raw : nullptr,
                                          wishes.likely ? &likely : nullptr, wishes.draw ? &draw : nullptr, scratch);
    const RowChoice expected = choose_row(logits.data(), vocab, request, scratch);
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_EQ(found.token, expected.token);
    EXPECT_NEAR(found.probability, expected.probability, 1e-5);
    EXPECT_EQ(found.statistics.best, expected.statistics.best);
    EXPECT_EQ(found.statistics.second, expected.statistics.second);
    EXPECT_NEAR(found.statistics.p_second, expected.statistics.p_second, 1e-5);
    EXPECT_NEAR(found.statistics.log_sum, expected.statistics.log_sum, 1e-4);
    EXPECT_NEAR(found.statistics.entropy, expected.statistics.entropy, 1e-4);
    EXPECT_NEAR(found.logprobs.token, expected.logprobs.token, 1e-4);
    ASSERT_EQ(found.logprobs.n_top, expected.logprobs.n_top);
    for (int32_t i = 0; i < expected.logprobs.n_top; ++i) {
      EXPECT_EQ(found.logprobs.top_ids[i], expected.logprobs.top_ids[i]);
      EXPECT_NEAR(found.logprobs.top_values[i], expected.logprobs.top_values[i], 1e-4);
    }
    ASSERT_EQ(found.likeliest.n, expected.likeliest.n);
    for (size_t i = 0; i < static_cast<size_t>(expected.likeliest.n); ++i) {
      EXPECT_EQ(found.likeliest.ids[i], expected.likeliest.ids[i]);
      EXPECT_NEAR(found.likeliest.log_chance[i], expected.likeliest.log_chance[i], 0.05);  // 4 % of the tail
    }
  }
  EXPECT_GT(answered, 3000);
  EXPECT_GT(adjusted_rows, 1000);
}

TEST(ListedRow, LeavesToTheWholeRowWhatListsDoNotAnswer) {
  SamplingParams plain, wide;
  plain.temperature = wide.temperature = 1;
  wide.top_k = 5000;
  const int32_t map = 4;
  RowRequest request;
  request.params = &plain;
  EXPECT_TRUE(wishes_of(request, 9000).any);
  RowRequest longer = request, mapped = request, verified = request;
  longer.params = &wide;
  mapped.id_map = &map;
  verified.pick = Pick::kVerified;
  for (const RowRequest& other : {longer, mapped, verified}) EXPECT_FALSE(wishes_of(other, 9000).any);
}

}  // namespace
}  // namespace ashlar
