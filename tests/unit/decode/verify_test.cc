// SPDX-License-Identifier: Apache-2.0
// Acceptance on a tiny vocabulary, where the target's distribution is known exactly.

#include "decode/verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "base/row_math.h"
#include "device/sampling/noise.h"
#include "device/sampling/sampler.h"
#include "unit/decode/verify_rows.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kVerifyVocab = 5;

// A Markov target: the logits after token t.
std::vector<float> target_logits(int32_t t) {
  std::vector<float> logits(kVerifyVocab);
  for (int32_t i = 0; i < kVerifyVocab; ++i) logits[i] = static_cast<float>(std::sin(1.7 * i + 0.9 * t) * 1.5);
  return logits;
}

std::vector<double> target_probabilities(int32_t t, double temperature) {
  std::vector<double> p(kVerifyVocab);
  double total = 0;
  const std::vector<float> logits = target_logits(t);
  for (int32_t i = 0; i < kVerifyVocab; ++i) total += p[i] = std::exp(logits[i] / temperature);
  for (double& value : p) value /= total;
  return p;
}

Slot make_slot(SamplingScheme scheme, double temperature, uint64_t seed) {
  Slot slot;
  slot.limit = 1 << 20;
  slot.params.temperature = temperature;
  slot.params.scheme = scheme;
  slot.params.seed = seed;
  return slot;
}

struct Draws {
  std::vector<std::vector<int>> next =
      std::vector<std::vector<int>>(kVerifyVocab, std::vector<int>(kVerifyVocab));  // [before][after]
  std::vector<int> before = std::vector<int>(kVerifyVocab);
  int accepted = 0;
};

// Verifies blocks of two drafts that were drawn from q (or are fixed, if certain), and counts every transition.
Draws draw(const std::vector<float>& q, bool certain, int blocks) {
  Draws draws;
  int32_t last_token = 0;
  for (int block = 0; block < blocks; ++block) {
    const auto seed = static_cast<uint64_t>(block);
    Slot slot = make_slot(SamplingScheme::kRejection, 0.8, seed);
    int32_t drafts[2];
    for (int32_t j = 0; j < 2; ++j) {
      double u = noise::uniform(noise::word(seed, j + 1, 0, noise::Domain::kDraft));
      int32_t id = 0;
      while (id + 1 < kVerifyVocab && u >= q[id]) u -= q[id++];
      drafts[j] = certain ? 2 : id;
    }
    std::vector<float> logits;
    for (const int32_t t : {last_token, drafts[0], drafts[1]}) {
      const std::vector<float> row = target_logits(t);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const float* const draft_q[2] = {q.data(), q.data()};
    VerifyInput input;
    input.n = 3;
    input.drafts = drafts;
    if (!certain) input.draft_q = draft_q;
    const SpanResult result = verify_rows(logits, input, slot);
    draws.accepted += result.n_accepted;
    int32_t t = last_token;
    for (int32_t i = 0; i < result.n_tokens; ++i) {
      ++draws.before[t];
      ++draws.next[t][result.tokens[i]];
      t = result.tokens[i];
    }
    last_token = t;
  }
  return draws;
}

void expect_target_frequencies(const Draws& draws) {
  for (int32_t t = 0; t < kVerifyVocab; ++t) {
    const std::vector<double> p = target_probabilities(t, 0.8);
    for (int32_t i = 0; i < kVerifyVocab; ++i) {
      const double n = draws.before[t];
      EXPECT_NEAR(draws.next[t][i], n * p[i], 3 * std::sqrt(n * p[i] * (1 - p[i]))) << t << " -> " << i << " of " << n;
    }
  }
}

TEST(Rejection, HasTheTargetsFrequenciesForAPoorDrafter) {
  const Draws draws = draw({0.05F, 0.1F, 0.6F, 0.2F, 0.05F}, false, 150000);
  expect_target_frequencies(draws);
  EXPECT_GT(draws.accepted, 10000);
}

TEST(Rejection, HasTheTargetsFrequenciesForCertainDrafts) {
  const Draws draws = draw(std::vector<float>(kVerifyVocab, 0.2F), true, 150000);
  expect_target_frequencies(draws);
  EXPECT_GT(draws.accepted, 10000);
}

// Drafts that know of one another, the second made before the first, as long as they do not claim a distribution.
TEST(Rejection, HasTheTargetsJointFrequenciesForCertainDraftsOfAnyMaking) {
  constexpr int kBlocks = 150000;
  std::vector<std::vector<int>> pairs(kVerifyVocab, std::vector<int>(kVerifyVocab));
  for (int block = 0; block < kBlocks; ++block) {
    const auto seed = static_cast<uint64_t>(block);
    Slot slot = make_slot(SamplingScheme::kRejection, 0.8, seed);
    const auto second =
        static_cast<int32_t>(kVerifyVocab * noise::uniform(noise::word(seed, 2, 0, noise::Domain::kDraft)));
    std::vector<int32_t> drafts = {second, second};
    int32_t tokens[2];
    for (int32_t done = 0; done < 2;) {  // after a refusal another block, of which the first token is known
      std::vector<float> logits;
      std::vector<int32_t> rows = {done == 0 ? 0 : tokens[0]};
      rows.insert(rows.end(), drafts.begin(), drafts.end());
      for (const int32_t t : rows) {
        const std::vector<float> row = target_logits(t);
        logits.insert(logits.end(), row.begin(), row.end());
      }
      VerifyInput input;
      input.start = done;
      input.n = static_cast<int32_t>(rows.size());
      input.drafts = drafts.data();
      const SpanResult result = verify_rows(logits, input, slot);
      for (int32_t i = 0; i < result.n_tokens && done < 2; ++i) tokens[done++] = result.tokens[i];
      drafts = {(tokens[0] + second) % kVerifyVocab};
    }
    ++pairs[tokens[0]][tokens[1]];
  }
  const std::vector<double> first = target_probabilities(0, 0.8);
  for (int32_t a = 0; a < kVerifyVocab; ++a) {
    const std::vector<double> then = target_probabilities(a, 0.8);
    for (int32_t b = 0; b < kVerifyVocab; ++b) {
      const double p = first[a] * then[b];
      EXPECT_NEAR(pairs[a][b], kBlocks * p, 4 * std::sqrt(kBlocks * p * (1 - p))) << a << ", " << b;
    }
  }
}

struct Verified {
  SpanResult result;
  Slot slot;
};

Verified verify_greedy(std::vector<int32_t> drafts, const std::function<void(Slot&)>& change) {
  Verified verified;
  verified.slot = make_slot(SamplingScheme::kCoupled, 0, 0);
  change(verified.slot);
  std::vector<float> logits;
  std::vector<int32_t> rows = {0};
  rows.insert(rows.end(), drafts.begin(), drafts.end());
  for (const int32_t t : rows) {
    const std::vector<float> row = target_logits(t);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  VerifyInput input;
  input.n = static_cast<int32_t>(rows.size());
  input.drafts = drafts.data();
  verified.result = verify_rows(logits, input, verified.slot);
  return verified;
}

// What the target says greedily after 0, 1, 2, ... tokens.
std::vector<int32_t> greedy_chain(int32_t n) {
  std::vector<int32_t> chain;
  for (int32_t t = 0; static_cast<int32_t>(chain.size()) < n;)
    chain.push_back(t = argmax(target_logits(t).data(), kVerifyVocab));
  return chain;
}

std::vector<int32_t> tokens(const SpanResult& result) { return {result.tokens, result.tokens + result.n_tokens}; }

TEST(Greedy, AcceptsTheLongestAgreeingPrefixAndAddsTheBonus) {
  const std::vector<int32_t> chain = greedy_chain(5);
  for (int32_t agree = 0; agree <= 4; ++agree) {
    std::vector<int32_t> drafts(chain.begin(), chain.begin() + 4);
    if (agree < 4) drafts[agree] = (drafts[agree] + 1) % kVerifyVocab;
    const Verified verified = verify_greedy(drafts, [](Slot&) {});
    EXPECT_EQ(tokens(verified.result), std::vector<int32_t>(chain.begin(), chain.begin() + agree + 1));
    EXPECT_EQ(verified.result.n_accepted, agree);
    EXPECT_EQ(verified.slot.last_token, chain[agree]);
  }
}

TEST(Greedy, ChoicesStandForTheLogitsTheyAreTheHighestOf) {
  const std::vector<int32_t> chain = greedy_chain(4);
  const std::vector<int32_t> drafts = {chain[0], chain[1], (chain[2] + 1) % kVerifyVocab};
  const Verified by_logits = verify_greedy(drafts, [](Slot&) {});
  Verified by_choices;
  by_choices.slot = make_slot(SamplingScheme::kCoupled, 0, 0);
  VerifyInput input;
  input.n = 4;
  input.drafts = drafts.data();
  ASSERT_TRUE(needs_only_choice(by_choices.slot));
  SpanWalk walk;
  walk.begin(input, kVerifyVocab, by_choices.slot, by_choices.result, nullptr);
  walk.take_highest(chain);
  EXPECT_EQ(tokens(by_choices.result), tokens(by_logits.result));
  EXPECT_EQ(by_choices.result.n_accepted, by_logits.result.n_accepted);
  EXPECT_EQ(by_choices.slot.last_token, by_logits.slot.last_token);
}

TEST(Greedy, WhatNeedsMoreThanAChoice) {
  const auto with = [](auto change) {
    Slot slot;
    change(slot.params);
    return needs_only_choice(slot);
  };
  EXPECT_TRUE(with([](SamplingParams&) {}));
  EXPECT_FALSE(with([](SamplingParams& params) { params.temperature = 0.5; }));
  EXPECT_FALSE(with([](SamplingParams& params) { params.presence_penalty = 0.5; }));
  EXPECT_FALSE(with([](SamplingParams& params) { params.repetition_penalty = 1.5; }));
  EXPECT_FALSE(with([](SamplingParams& params) { params.logit_bias = {{1, 2.0F}}; }));
  EXPECT_FALSE(with([](SamplingParams& params) { params.top_logprobs = 0; }));
}

TEST(Greedy, StopsInsideABlock) {
  const std::vector<int32_t> chain = greedy_chain(5);
  const Verified verified =
      verify_greedy({chain[0], chain[1], chain[2]}, [&](Slot& slot) { slot.stop_ids = {chain[1]}; });
  const auto stop = std::find(chain.begin(), chain.end(), chain[1]) - chain.begin();
  EXPECT_EQ(verified.result.n_tokens, stop + 1);
  EXPECT_EQ(verified.result.end, SpanEnd::kStop);
  EXPECT_TRUE(verified.slot.done);
}

TEST(Greedy, RespectsTheLimitInsideABlock) {
  const std::vector<int32_t> chain = greedy_chain(5);
  const Verified verified = verify_greedy({chain[0], chain[1], chain[2]}, [](Slot& slot) { slot.limit = 3; });
  EXPECT_EQ(verified.result.n_tokens, 2);  // tokens of index 1 and 2
  EXPECT_EQ(verified.result.end, SpanEnd::kLength);
}

// With a strong frequency penalty each token may appear once: row j must see the tokens chosen in the rows before it.
TEST(Penalties, SeeTheTokensOfTheSameBlock) {
  std::vector<int32_t> expected;
  {
    TokenCounts counts;
    counts.reserve(kVerifyVocab);
    SamplingParams params;
    params.frequency_penalty = 50;
    for (int32_t t = 0, i = 0; i < 4; ++i) {
      std::vector<float> logits = target_logits(t);
      adjust_logits(logits.data(), kVerifyVocab, params, {&counts}, nullptr);
      expected.push_back(t = argmax(logits.data(), kVerifyVocab));
      counts.add_answer(t);
    }
  }
  const Verified verified = verify_greedy({expected[0], expected[1], expected[2]}, [](Slot& slot) {
    slot.params.frequency_penalty = 50;
    slot.counts.reserve(kVerifyVocab);
  });
  EXPECT_EQ(tokens(verified.result), expected);
  EXPECT_EQ(verified.result.n_accepted, 3);
}

// Where a tree leads: from each row to the row of the token chosen there, however branches lie between them.
TEST(Verify, FollowsATreeAsFarAsItGoes) {
  // best[t]: what the greedy target says after t.
  int32_t best[kVerifyVocab];
  for (int32_t t = 0; t < kVerifyVocab; ++t) best[t] = argmax(target_logits(t).data(), kVerifyVocab);
  const int32_t a = best[0];
  const int32_t b = best[a];
  const int32_t c = best[b];
  const int32_t wrong = (a + 1) % kVerifyVocab;
  const int32_t not_b = (b + 1) % kVerifyVocab;
  struct Case {
    std::vector<int32_t> drafts, parents;  // parents: of rows 1, 2, ...
    std::vector<int32_t> path;
  };
  const std::vector<Case> cases = {
      {{a, b, c}, {0, 1, 2}, {0, 1, 2, 3}},                      // a chain
      {{wrong, b, a, b}, {0, 1, 0, 3}, {0, 3, 4}},               // in the second branch
      {{a, not_b, c, b}, {0, 1, 2, 1}, {0, 1, 4}},               // after a shared row
      {{a, not_b, b, c, wrong}, {0, 1, 1, 3, 0}, {0, 1, 3, 4}},  // in the middle one of three
      {{wrong, b, not_b}, {0, 0, 0}, b == a ? std::vector<int32_t>{0, 2} : std::vector<int32_t>{0}},
      {{wrong, a, b}, {0, 1, 2}, {0}},  // the right tokens below a wrong one
  };
  for (const Case& tree : cases) {
    Slot slot = make_slot(SamplingScheme::kCoupled, 0, 0);
    std::vector<float> logits;
    std::vector<int32_t> parents = {0};
    parents.insert(parents.end(), tree.parents.begin(), tree.parents.end());
    std::vector<int32_t> tokens = {0};
    tokens.insert(tokens.end(), tree.drafts.begin(), tree.drafts.end());
    for (const int32_t t : tokens) {
      const std::vector<float> row = target_logits(t);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    int32_t path[kMaxWidth];
    VerifyInput input;
    input.n = static_cast<int32_t>(tokens.size());
    input.drafts = tree.drafts.data();
    input.parents = parents.data();
    input.path = path;
    const SpanResult result = verify_rows(logits, input, slot);
    ASSERT_EQ(std::vector<int32_t>(path, path + result.n_tokens), tree.path);
    EXPECT_EQ(result.n_accepted, result.n_tokens - 1);
    int32_t t = 0;
    for (int32_t i = 0; i < result.n_tokens; ++i) EXPECT_EQ(result.tokens[i], t = best[t]);
    EXPECT_EQ(slot.last_token, t);
  }
}

// Rows that are asked about before their turn are those of drafts that may be wrong.
TEST(Verify, HowManyRowsAreAskedAboutAtOnceChangesNothing) {
  DeviceOptions options;
  options.threads = 6;
  const auto many = make_device("cpu", options);
  std::mt19937 random(5);
  int64_t tokens_seen = 0;
  for (int round = 0; round < 500; ++round) {
    Slot slot = make_slot(round % 4 == 3 ? SamplingScheme::kRejection : SamplingScheme::kCoupled,
                          round % 3 == 0 ? 0.0 : 0.7, static_cast<uint64_t>(round));
    if (round % 2 == 0) slot.params.frequency_penalty = 0.9;
    if (round % 5 == 0) slot.params.top_logprobs = 2;
    slot.counts.reserve(kVerifyVocab);
    const auto n = static_cast<int32_t>(2 + random() % 9);
    std::vector<int32_t> drafts, parents = {0};
    std::vector<float> logits = target_logits(0);
    for (int32_t r = 1; r < n; ++r) {
      const bool chain = slot.params.scheme == SamplingScheme::kRejection || random() % 4 != 0;
      parents.push_back(chain ? r - 1 : static_cast<int32_t>(random() % static_cast<uint32_t>(r)));
      const int32_t before = parents.back() == 0 ? 0 : drafts[static_cast<size_t>(parents.back()) - 1];
      const auto good = argmax(target_logits(before).data(), kVerifyVocab);
      drafts.push_back(random() % 3 != 0 ? good : static_cast<int32_t>(random() % kVerifyVocab));
      const std::vector<float> row = target_logits(drafts.back());
      logits.insert(logits.end(), row.begin(), row.end());
    }
    std::array<int32_t, kMaxWidth> path{}, other_path{};
    VerifyInput input;
    input.n = n;
    input.drafts = drafts.data();
    input.parents = parents.data();
    input.path = path.data();
    Slot other = slot;
    std::vector<TokenLogprobs> logprobs(kMaxWidth), other_logprobs(kMaxWidth);
    const SpanResult one = verify_rows(logits, input, slot, logprobs.data());
    input.path = other_path.data();
    const SpanResult all = verify_rows(*many, logits, input, other, other_logprobs.data());
    ASSERT_EQ(tokens(one), tokens(all)) << round;
    EXPECT_EQ(one.n_accepted, all.n_accepted);
    EXPECT_EQ(one.end, all.end);
    EXPECT_EQ(path, other_path);
    for (int32_t id = 0; id < kVerifyVocab; ++id) EXPECT_EQ(slot.counts.in_answer(id), other.counts.in_answer(id));
    for (int32_t i = 0; i < one.n_tokens; ++i) {
      EXPECT_EQ(logprobs[static_cast<size_t>(i)].token, other_logprobs[static_cast<size_t>(i)].token);
    }
    tokens_seen += one.n_tokens;
  }
  EXPECT_GT(tokens_seen, 1000);
}

}  // namespace
}  // namespace ashlar::testing
