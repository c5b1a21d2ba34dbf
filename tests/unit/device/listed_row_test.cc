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
    const float q = request.draft_q != nullptr ? request.draft_q[i] : 0;
    if (std::isfinite(logits[i]) && column != request.excluded) all.push_back({column, logits[i], raw[i], q});
  }
  if (wish.given >= 0) {
    const auto given = static_cast<size_t>(wish.given);
    const auto at = [&](size_t i) { return static_cast<int32_t>(i) == request.excluded ? -INFINITY : logits[i]; };
    row.given = {-1, at(given), raw[given], request.draft_q != nullptr ? request.draft_q[given] : 1};
    for (size_t i = 0; i < given; ++i) row.rank += at(i) >= at(given) ? 1 : 0;
    for (size_t i = given + 1; i < logits.size(); ++i) row.rank += at(i) > at(given) ? 1 : 0;
    ++row.rank;
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  row.highest = all.front().logit;
  for (const auto& token : all) {
    const double below = static_cast<double>(token.logit) - row.highest;
    row.sum += std::exp(below);
    row.tempered += std::exp(below * inverse);
  }
  const auto mass_of = [&](const ListedRow::Token& token) {
    double q = token.q;
    if (wish.given >= 0 && request.draft_q == nullptr) q = token.column == wish.given ? 1 : 0;
    const double weight = std::exp((static_cast<double>(token.logit) - row.highest) * inverse);
    return wish.given >= 0 ? std::max(weight - q * row.tempered, 0.0) : weight;
  };
  if (wish.by_mass) {
    for (const auto& token : all) row.mass += mass_of(token);
    double reached = 0;
    // Pieces of three, so that something lies before and after.
    for (size_t i = 0; i < all.size() && row.tokens.empty(); i += 3) {
      row.before = reached;
      const size_t end = std::min(i + 3, all.size());
      for (size_t k = i; k < end; ++k) reached += mass_of(all[k]);
      if (reached > wish.at * row.mass) row.tokens.assign(all.data() + i, all.data() + end);
    }
    return row;
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
  for (int32_t round = 0; round < 14000; ++round) {
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
    request.pick = std::array{Pick::kLikeliest, Pick::kToken, Pick::kToken, Pick::kVerified,
                              Pick::kVerified,  Pick::kDraft, Pick::kGiven}[random() % 7];
    const bool drafts_one = request.pick == Pick::kDraft, is_given = request.pick == Pick::kGiven;
    if (drafts_one && params.greedy()) params.temperature = 0.8;
    if (request.pick != Pick::kLikeliest && !drafts_one && random() % 2 == 0) {
      request.top_logprobs = static_cast<int32_t>(random() % 21);
    }
    if (is_given) request.top_logprobs = std::max(request.top_logprobs, 0);
    if (request.pick == Pick::kToken && random() % 3 == 0) request.statistics = true;
    if (vocab > 2 && random() % 4 == 0) request.excluded = vocab - 1;
    // Of a draft: what the row gives itself, more and less sharply, or nothing like it.
    std::vector<float> q(static_cast<size_t>(vocab));
    const float sharpness = std::array{0.0F, 0.5F, 1.0F, 2.0F}[random() % 4];
    float all_q = 0;
    for (size_t i = 0; i < q.size(); ++i)
      all_q += q[i] = std::isfinite(logits[i]) ? std::exp(logits[i] * sharpness) : 0;
    for (float& chance : q) chance /= all_q;
    if (request.pick == Pick::kVerified || is_given) {
      request.token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
      if (random() % 3 == 0) request.token = static_cast<int32_t>(std::max_element(q.begin(), q.end()) - q.begin());
      if (!is_given && random() % 4 == 0) request.token = -1;
      if (!is_given && random() % 2 == 0) request.draft_q = q.data();
    }
    std::vector<float> distribution(drafts_one ? 2 * static_cast<size_t>(vocab) + 5 : 0, 7);
    if (drafts_one) request.distribution = distribution.data();
    request.distribution_size = static_cast<int32_t>(distribution.size());
    std::vector<int32_t> id_map(static_cast<size_t>(vocab));
    for (int32_t i = 0; i < vocab; ++i) id_map[static_cast<size_t>(i)] = 2 * i + 3;
    if (random() % 4 == 0 && (request.pick <= Pick::kToken || request.pick > Pick::kVerified) && !is_given) {
      request.id_map = id_map.data();
    }

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
    if (!wishes.adjusted) adjusted = logits;
    if (wishes.likely) likely = list_of(logits, adjusted, request, wishes.of_likely);
    if (wishes.draw) draw = list_of(logits, adjusted, request, wishes.of_draw);
    if (request.excluded >= 0) adjusted[static_cast<size_t>(request.excluded)] = -INFINITY;
    const RowStatistics statistics = row_statistics(adjusted.data(), vocab);
    const RowLists lists = {wishes.raw ? &raw : nullptr, wishes.likely ? &likely : nullptr,
                            wishes.draw ? &draw : nullptr, wishes.statistics ? &statistics : nullptr};
    ASSERT_TRUE(answers(lists));
    const RowChoice found = choose_listed(request, vocab, lists, scratch);
    const std::vector<Candidate> kept = scratch.candidates;
    const RowChoice expected = choose_row(logits.data(), vocab, request, scratch);
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_EQ(found.token, expected.token);
    if (drafts_one && params.filters()) {
      for (const Candidate& candidate : kept) {
        float& expected_chance = distribution[static_cast<size_t>(candidate.id)];
        EXPECT_NEAR(candidate.probability, expected_chance, 1e-6);
        expected_chance = 0;
      }
      // Where a share ends, a sum's rounding decides.
      EXPECT_LT(*std::max_element(distribution.begin(), distribution.end()), 1e-6);
    }
    EXPECT_EQ(found.rank, expected.rank);
    EXPECT_EQ(found.probability, expected.probability);
    EXPECT_EQ(found.statistics.best, expected.statistics.best);
    EXPECT_EQ(found.statistics.second, expected.statistics.second);
    EXPECT_EQ(found.statistics.p_second, expected.statistics.p_second);
    EXPECT_EQ(found.statistics.entropy, expected.statistics.entropy);
    if (std::isfinite(expected.logprobs.token)) {
      EXPECT_NEAR(found.logprobs.token, expected.logprobs.token, 1e-4);
    } else {  // given tokens may be masked, or no numbers
      EXPECT_EQ(std::isnan(found.logprobs.token), std::isnan(expected.logprobs.token));
      EXPECT_FALSE(std::isfinite(found.logprobs.token));
    }
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
  EXPECT_GT(answered, 7000);
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
  RowRequest longer = request, mapped = request, drafted = request;
  longer.params = &wide;
  mapped.id_map = drafted.id_map = &map;
  drafted.pick = Pick::kDraft;
  for (const RowRequest& other : {longer, mapped, drafted}) EXPECT_FALSE(wishes_of(other, 9000).any);
}

}  // namespace
}  // namespace ashlar
