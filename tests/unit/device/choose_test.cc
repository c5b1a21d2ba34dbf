// SPDX-License-Identifier: Apache-2.0
// Rows of logits to tokens: what a device says of many rows at once is what each row says alone.

#include "device/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "device/device.h"
#include "device/sampling/choose_row.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kVocab = 700;

std::vector<float> random_rows(std::mt19937& random, int32_t rows) {
  std::vector<float> logits(static_cast<size_t>(rows) * kVocab);
  for (float& logit : logits) logit = std::normal_distribution<float>(0, 3)(random);
  return logits;
}

int32_t random_id(std::mt19937& random) { return static_cast<int32_t>(random() % kVocab); }

// One request of each kind, with everything that may be done to a row.
struct Case {
  SamplingParams params;
  TokenCounts counts;
  std::vector<int32_t> after, id_map;
  std::vector<uint32_t> allowed;
  std::vector<float> q, distribution;
  RowRequest request;
};

std::unique_ptr<Case> make_case(std::mt19937& random, int32_t row) {
  auto made = std::make_unique<Case>();
  Case& c = *made;
  const auto pick = static_cast<Pick>(row % 5);
  SamplingParams& params = c.params;
  params.seed = random();
  params.temperature = row % 3 == 0 && pick != Pick::kDraft ? 0.0 : 0.3 * (row % 5 + 1);
  if (row % 4 == 1) params.top_p = 0.8;
  if (row % 4 == 2) params.top_k = 20;
  if (row % 2 == 0) {
    params.repetition_penalty = 1.3;
    params.frequency_penalty = 0.4;
    params.presence_penalty = 0.2;
    params.logit_bias = {{random_id(random), 3.0F}};
  }
  c.counts.reserve(kVocab);
  for (int i = 0; i < 50; ++i) c.counts.add_prompt(random_id(random));
  for (int i = 0; i < 50; ++i) c.counts.add_answer(random_id(random));
  for (int i = 0; i < row % 8; ++i) c.after.push_back(random_id(random));
  c.id_map.resize(kVocab);
  std::iota(c.id_map.rbegin(), c.id_map.rend(), 0);
  c.allowed.resize((kVocab + 31) / 32);
  for (uint32_t& word : c.allowed) word = static_cast<uint32_t>(random());
  c.q.assign(kVocab, 1.0F / kVocab);
  c.distribution.assign(kVocab, -1.0F);

  RowRequest& request = c.request;
  request.pick = pick;
  request.row = row;
  request.position = row + 11;
  request.params = &params;
  request.seen = {&c.counts, c.after, c.counts.seen().back()};
  if (request.pick != Pick::kGiven) request.excluded = random_id(random);
  if (row % 7 < 3) request.allowed = c.allowed;
  if (request.pick == Pick::kDraft || (request.pick == Pick::kLikeliest && row % 2 == 0)) {
    request.id_map = c.id_map.data();
    request.distribution = c.distribution.data();
    request.distribution_size = kVocab;
  }
  if (request.pick == Pick::kVerified || request.pick == Pick::kGiven) request.token = random_id(random);
  if (row % 2 == 0) request.draft_q = c.q.data();
  if (request.pick == Pick::kToken || request.pick == Pick::kGiven) request.top_logprobs = 5;
  request.statistics = request.pick == Pick::kToken;
  return made;
}

void expect_same(const RowChoice& found, const RowChoice& expected) {
  EXPECT_EQ(found.token, expected.token);
  EXPECT_EQ(found.probability, expected.probability);
  EXPECT_EQ(found.rank, expected.rank);
  EXPECT_EQ(std::memcmp(&found.statistics, &expected.statistics, sizeof(found.statistics)), 0);
  EXPECT_EQ(found.logprobs.token, expected.logprobs.token);
  ASSERT_EQ(found.logprobs.n_top, expected.logprobs.n_top);
  for (int32_t i = 0; i < found.logprobs.n_top; ++i) {
    EXPECT_EQ(found.logprobs.top_ids[i], expected.logprobs.top_ids[i]);
    EXPECT_EQ(found.logprobs.top_values[i], expected.logprobs.top_values[i]);
  }
  ASSERT_EQ(found.likeliest.n, expected.likeliest.n);
  for (size_t i = 0; i < static_cast<size_t>(found.likeliest.n); ++i) {
    EXPECT_EQ(found.likeliest.ids[i], expected.likeliest.ids[i]);
    EXPECT_EQ(found.likeliest.log_chance[i], expected.likeliest.log_chance[i]);
  }
}

TEST(Choose, RowsTogetherAreRowsAloneOnAnyNumberOfThreads) {
  constexpr int32_t kRows = 60;
  std::mt19937 random(1);
  const std::vector<float> logits = random_rows(random, kRows);
  std::vector<std::unique_ptr<Case>> cases;
  std::vector<RowChoice> expected;
  std::vector<std::vector<float>> distributions;
  for (int32_t row = 0; row < kRows; ++row) {
    cases.push_back(make_case(random, row));
    std::vector<float> copy(logits.begin() + row * kVocab, logits.begin() + (row + 1) * kVocab);
    SamplerScratch scratch;
    expected.push_back(choose_row(copy.data(), kVocab, cases.back()->request, scratch));
    distributions.push_back(cases.back()->distribution);
  }
  for (const int32_t threads : {1, 2, 5}) {
    DeviceOptions options;
    options.threads = threads;
    const auto ops = make_device(threads == 1 ? "ref" : "cpu", options);
    std::vector<RowRequest> requests;
    for (auto& c : cases) {
      c->distribution.assign(kVocab, -1.0F);
      requests.push_back(c->request);
    }
    std::reverse(requests.begin(), requests.end());
    std::vector<float> copy = logits;
    std::vector<RowChoice> found(requests.size());
    ops->choose({copy.data(), kRows, kVocab, kVocab}, requests, found);
    std::reverse(found.begin(), found.end());
    for (size_t row = 0; row < cases.size(); ++row) {
      SCOPED_TRACE("row " + std::to_string(row) + ", threads " + std::to_string(threads));
      expect_same(found[row], expected[row]);
      EXPECT_EQ(cases[row]->distribution, distributions[row]);
    }
  }
}

// A row that has seen more or less than its sequence's counts is the row of a sequence that has.
TEST(Choose, PenaltiesCountWhatTheRowHasSeen) {
  std::mt19937 random(2);
  std::vector<int32_t> id_map(kVocab);
  std::iota(id_map.rbegin(), id_map.rend(), 0);
  for (int round = 0; round < 200; ++round) {
    SamplingParams params;
    params.repetition_penalty = 1.4;
    params.frequency_penalty = 0.3;
    params.presence_penalty = 0.7;
    TokenCounts counts;
    counts.reserve(kVocab);
    for (int i = 0; i < 20; ++i) counts.add_prompt(random_id(random));
    for (int i = 0; i < 20; ++i) counts.add_answer(random_id(random));
    std::vector<int32_t> after;
    for (int i = 0; i < round % 10; ++i) after.push_back(i % 3 == 2 ? after[0] : random_id(random));
    const int32_t without = round % 2 == 0 ? counts.seen().back() : -1;
    std::vector<float> found = random_rows(random, 1);
    std::vector<float> expected = found;
    const int32_t* const map = round % 4 < 2 ? nullptr : id_map.data();
    adjust_logits(found.data(), kVocab, params, {&counts, after, without}, map);
    if (without >= 0) counts.remove_answer(without);
    for (const int32_t id : after) counts.add_answer(id);
    adjust_logits(expected.data(), kVocab, params, {&counts}, map);
    ASSERT_EQ(found, expected) << round;
  }
}

TEST(Choose, AGivenTokensRankIsItsPlaceInASortedRow) {
  std::mt19937 random(3);
  std::vector<float> logits = random_rows(random, 1);
  for (float& logit : logits) logit = std::round(logit);  // many equals
  std::vector<int32_t> order(kVocab);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  SamplerScratch scratch;
  for (int32_t place = 0; place < kVocab; place += 13) {
    RowRequest request;
    request.pick = Pick::kGiven;
    request.token = order[place];
    request.top_logprobs = 3;
    const RowChoice choice = choose_row(logits.data(), kVocab, request, scratch);
    EXPECT_EQ(choice.rank, place + 1);
    EXPECT_NEAR(choice.logprobs.token, logits[order[place]] - std::log(sum), 1e-5);
    EXPECT_EQ(choice.logprobs.top_ids[2], order[2]);
  }
}

TEST(Choose, ARowWithoutNumbersHasNoToken) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float none = -std::numeric_limits<float>::infinity();
  SamplerScratch scratch;
  for (const double temperature : {0.0, 0.8}) {
    for (const bool statistics : {false, true}) {
      SamplingParams params;
      params.temperature = temperature;
      RowRequest request;
      request.params = &params;
      request.statistics = statistics;
      for (const std::vector<float>& row : {std::vector<float>(40, nan), std::vector<float>(40, none)}) {
        std::vector<float> logits = row;
        EXPECT_EQ(choose_row(logits.data(), 40, request, scratch).token, -1);
        logits = row;
        logits[17] = 0.5F;
        EXPECT_EQ(choose_row(logits.data(), 40, request, scratch).token, 17);
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
