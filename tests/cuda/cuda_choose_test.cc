// SPDX-License-Identifier: Apache-2.0
// What a GPU says of rows of logits is what the host's own code says of them.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "cuda/on_gpu.h"
#include "device/sampling/choose_row.h"

namespace ashlar::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Ids of a vocabulary's entries, which are not their places.
std::vector<int32_t> spread_ids(int32_t vocab) {
  std::vector<int32_t> ids(static_cast<size_t>(vocab));
  for (int32_t i = 0; i < vocab; ++i) ids[static_cast<size_t>(i)] = 3 * i + 1;
  return ids;
}

class ChooseOnGpu : public OnGpu {
 protected:
  /// Rows of every kind: normal ones, ones of few values, which are full of ties, and ones with little that is a
  /// number.
  std::vector<float> rows_of(int32_t rows, int32_t vocab, int64_t stride) {
    std::vector<float> logits(static_cast<size_t>(rows * stride), kInfinity);
    for (int32_t r = 0; r < rows; ++r) {
      for (int32_t i = 0; i < vocab; ++i) {
        float& logit = logits[static_cast<size_t>(r * stride + i)];
        logit = std::normal_distribution<float>(0, 3)(random_);
        if (r % 5 == 1) logit = std::round(logit) * 0.5F;
        if (r % 5 == 2) logit = random_() % 2 == 0 ? 0.0F : -0.0F;
        if (r % 5 == 3) logit = random_() % 3 == 0 ? -kInfinity : std::nanf("");
        if (r % 5 == 3 && i % 97 == 5 && i < 5 + 97 * (r % 10)) logit = static_cast<float>(i % 3);
      }
    }
    return logits;
  }
  std::mt19937 random_{5};
};

TEST_F(ChooseOnGpu, IsWhatTheHostChooses) {
  constexpr int32_t kRows = 40;
  for (const int32_t vocab : {7, 300, 5000, 151936}) {
    const int64_t stride = vocab + 3;
    const std::vector<float> logits = rows_of(kRows, vocab, stride);
    const std::vector<int32_t> id_map = spread_ids(vocab);
    SamplingParams greedy, sampled, biased;
    sampled.temperature = 0.7;
    biased.logit_bias = {{vocab / 2, 100.0F}};
    std::vector<RowRequest> requests;
    for (int32_t row = kRows - 1; row >= 0; row -= row % 3 + 1) {
      RowRequest request;
      request.row = row;
      request.position = row + 5;
      request.pick = row % 2 == 0 ? Pick::kLikeliest : Pick::kToken;
      request.params = row % 7 == 3 ? &sampled : row % 7 == 5 ? &biased : &greedy;
      request.statistics = row % 9 == 7 && request.pick == Pick::kToken;
      if (row % 4 > 1) request.id_map = id_map.data();
      if (request.params == &biased) request.id_map = nullptr;
      requests.push_back(request);
    }
    const auto memory = ops_->allocate(sizeof(float) * logits.size());
    ops_->upload(logits.data(), memory->data(), sizeof(float) * logits.size());
    std::vector<RowChoice> found(requests.size());
    ops_->choose({memory->data(), kRows, vocab, stride}, requests, found);

    SamplerScratch scratch;
    scratch.reserve(vocab);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("vocab " + std::to_string(vocab) + " row " + std::to_string(requests[i].row));
      const float* const first = &logits[static_cast<size_t>(requests[i].row * stride)];
      std::vector<float> row(first, first + vocab);
      const RowChoice expected = choose_row(row.data(), vocab, requests[i], scratch);
      EXPECT_EQ(found[i].token, expected.token);
      EXPECT_EQ(found[i].statistics.best, expected.statistics.best);
      ASSERT_EQ(found[i].likeliest.n, expected.likeliest.n);
      for (size_t k = 0; k < static_cast<size_t>(expected.likeliest.n); ++k) {
        EXPECT_EQ(found[i].likeliest.ids[k], expected.likeliest.ids[k]);
        // The host adds the tail up roughly: within 4 %.
        EXPECT_NEAR(found[i].likeliest.log_chance[k], expected.likeliest.log_chance[k], 0.05);
      }
    }
  }
}

// Every combination of temperature and filters, with log-probabilities and statistics, in rows with and without ties.
// What a row is answered follows from it alone: among others and by itself the same, bit for bit.
TEST_F(ChooseOnGpu, SampledRowsAreWhatTheHostChooses) {
  constexpr int32_t kRows = 240;
  for (const int32_t vocab : {7, 300, 5000, 151936}) {
    const int64_t stride = vocab + 1;
    const std::vector<float> logits = rows_of(kRows, vocab, stride);
    const std::vector<int32_t> id_map = spread_ids(vocab);
    std::vector<uint32_t> mask(static_cast<size_t>(vocab + 31) / 32);
    for (uint32_t& word : mask) word = random_() | 2;
    TokenCounts counts;
    counts.reserve(vocab);
    for (int32_t i = 0; i < 50; ++i) counts.add_answer(static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab)));
    for (int32_t i = 0; i < vocab; i += 3) counts.add_prompt(i);
    const int32_t drafts[3] = {1, 5, 1};
    std::vector<SamplingParams> params(kRows);
    std::vector<RowRequest> requests(kRows);
    for (int32_t r = 0; r < kRows; ++r) {
      SamplingParams& own = params[static_cast<size_t>(r)];
      own.seed = 1000003ULL * static_cast<uint64_t>(r) << (r % 3 * 20);
      own.temperature = std::array{0.0, 0.7, 1.0, 0.05, 3.0}[random_() % 5];
      own.top_k = std::array{0, 0, 1, 20, 50, 300}[random_() % 6];
      own.top_p = std::array{1.0, 1.0, 0.95, 0.3, 0.9999999}[random_() % 5];
      own.min_p = std::array{0.0, 0.0, 0.02}[random_() % 3];
      RowRequest& request = requests[static_cast<size_t>(r)];
      request.params = &own;
      request.row = (r * 77) % kRows;
      request.position = 17 * r;
      if (r % 7 == 2) request.pick = Pick::kLikeliest;
      if (r % 5 == 1) request.id_map = id_map.data();
      if (request.pick == Pick::kToken && request.id_map == nullptr) {
        if (r % 3 == 0) request.top_logprobs = r % 21;
        request.statistics = r % 4 == 1;
      }
      if (r % 6 == 5) request.excluded = r % vocab;
      if (r % 4 == 3) request.allowed = mask;
      if (request.id_map != nullptr) continue;
      if (r % 5 == 2) own.logit_bias = {{vocab / 2, 3.0F}, {1, -1.5F}};
      if (r % 5 == 4) request.repeated = 3, request.repeat_penalty = 1.5F;
      if (r % 3 == 2) {
        own.repetition_penalty = 1.2;
        own.frequency_penalty = 0.3;
        own.presence_penalty = -0.1;
        request.seen = {&counts, drafts, -1};
      }
    }
    const auto memory = ops_->allocate(sizeof(float) * logits.size());
    const Tensor rows = {memory->data(), kRows, vocab, stride};
    ops_->upload(logits.data(), memory->data(), sizeof(float) * logits.size());
    std::vector<RowChoice> found(kRows);
    ops_->choose(rows, requests, found);

    SamplerScratch scratch;
    scratch.reserve(vocab);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("vocab " + std::to_string(vocab) + " request " + std::to_string(i));
      const float* const first = &logits[static_cast<size_t>(requests[i].row * stride)];
      std::vector<float> row(first, first + vocab);
      const RowChoice expected = choose_row(row.data(), vocab, requests[i], scratch);
      EXPECT_EQ(found[i].token, expected.token);
      // Bit for bit, as linear_statistics() gives them.
      EXPECT_EQ(found[i].probability, expected.probability);
      EXPECT_EQ(found[i].statistics.best, expected.statistics.best);
      EXPECT_EQ(found[i].statistics.second, expected.statistics.second);
      EXPECT_EQ(found[i].statistics.p_second, expected.statistics.p_second);
      EXPECT_EQ(found[i].statistics.log_sum, expected.statistics.log_sum);
      EXPECT_EQ(found[i].statistics.entropy, expected.statistics.entropy);
      ASSERT_EQ(found[i].logprobs.n_top, expected.logprobs.n_top);
      if (expected.token >= 0) {
        EXPECT_NEAR(found[i].logprobs.token, expected.logprobs.token, 1e-4);
      }
      for (int32_t k = 0; k < expected.logprobs.n_top; ++k) {
        EXPECT_EQ(found[i].logprobs.top_ids[k], expected.logprobs.top_ids[k]);
        EXPECT_NEAR(found[i].logprobs.top_values[k], expected.logprobs.top_values[k], 1e-4);
      }
      ASSERT_EQ(found[i].likeliest.n, expected.likeliest.n);
      for (size_t k = 0; k < static_cast<size_t>(expected.likeliest.n); ++k) {
        EXPECT_EQ(found[i].likeliest.ids[k], expected.likeliest.ids[k]);
      }
      if (i % 9 != 0) continue;
      ops_->upload(first, memory->data() + sizeof(float) * static_cast<size_t>(stride),
                   sizeof(float) * static_cast<size_t>(vocab));
      RowRequest alone = requests[i];
      alone.row = 1;
      RowChoice again;
      ops_->choose(rows, {&alone, 1}, {&again, 1});
      EXPECT_EQ(again.token, found[i].token);
      EXPECT_EQ(again.probability, found[i].probability);
      EXPECT_EQ(again.statistics.entropy, found[i].statistics.entropy);
      EXPECT_EQ(again.logprobs.token, found[i].logprobs.token);
    }
  }
}

// Drafts that are drawn and verified by rejection, with and without filters, and tokens that are given: what each is
// answered, and distributions of drafts.
TEST_F(ChooseOnGpu, RejectionAndGivenTokensAreAsOnTheHost) {
  constexpr int32_t kRows = 180;
  for (const int32_t vocab : {7, 300, 5000, 151936}) {
    const int64_t stride = vocab + 2;
    const int32_t size = vocab + 37;  // of a distribution
    const std::vector<float> logits = rows_of(kRows, vocab, stride);
    // Drafters that know the row's first half and not its second, and one that knows nothing.
    std::vector<float> chances(static_cast<size_t>(3 * vocab));
    for (size_t d = 0; d < 3; ++d) {
      double sum = 0;
      const auto of = std::span(chances).subspan(d * static_cast<size_t>(vocab), static_cast<size_t>(vocab));
      for (size_t i = 0; i < of.size(); ++i) {
        const float logit = d < 2 && i < of.size() / 2 ? logits[i] : 0;
        sum += of[i] = std::isfinite(logit) ? std::exp(logit * (d == 0 ? 1 : 0.5F)) : 0;
      }
      for (float& chance : of) chance = static_cast<float>(chance / sum);
    }
    const auto q_memory = ops_->allocate(sizeof(float) * chances.size());
    ops_->upload(chances.data(), q_memory->data(), sizeof(float) * chances.size());
    const auto distributions = ops_->allocate(sizeof(float) * static_cast<size_t>(size) * kRows);
    const auto* const q_device = reinterpret_cast<const float*>(q_memory->data());

    std::vector<SamplingParams> params(kRows);
    std::vector<RowRequest> requests(kRows);
    const SamplingParams biased = [&] {
      SamplingParams own;
      own.logit_bias = {{vocab / 2, 2.0F}};
      return own;
    }();
    for (int32_t r = 0; r < kRows; ++r) {
      SamplingParams& own = params[static_cast<size_t>(r)];
      if (r % 8 == 1) own = biased;
      own.seed = random_();
      own.temperature = std::array{0.7, 1.0, 0.05, 3.0}[random_() % 4];
      own.top_k = std::array{0, 0, 0, 20}[random_() % 4];
      own.top_p = std::array{1.0, 1.0, 1.0, 0.9}[random_() % 4];
      own.min_p = std::array{0.0, 0.0, 0.0, 0.02}[random_() % 4];
      RowRequest& request = requests[static_cast<size_t>(r)];
      request.params = &own;
      request.row = r % 5 == 0 ? 0 : (r * 77) % kRows;
      request.position = 11 * r;
      request.pick = std::array{Pick::kVerified, Pick::kVerified, Pick::kDraft, Pick::kGiven}[r % 4];
      request.token = r % 3 == 0 ? 1 : static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab));
      if (request.pick == Pick::kVerified) {
        if (r % 9 == 4) request.token = -1;
        if (r % 3 != 1) request.draft_q = chances.data() + r % 3 / 2 * vocab + r % 2 * vocab;
        if (r % 6 == 0) request.top_logprobs = r % 21;
      } else if (request.pick == Pick::kDraft) {
        request.distribution_size = size;
      } else {
        request.top_logprobs = r % 21;
        if (r % 7 == 3) request.params = nullptr;
      }
      if (r % 6 == 5) request.excluded = r % vocab;
    }
    std::vector<RowRequest> asked = requests;
    for (size_t i = 0; i < asked.size(); ++i) {
      if (asked[i].draft_q != nullptr) asked[i].draft_q = q_device + (asked[i].draft_q - chances.data());
      if (asked[i].pick == Pick::kDraft) {
        asked[i].distribution = reinterpret_cast<float*>(distributions->data()) + i * static_cast<size_t>(size);
      }
    }
    const auto memory = ops_->allocate(sizeof(float) * logits.size());
    const Tensor rows = {memory->data(), kRows, vocab, stride};
    ops_->upload(logits.data(), memory->data(), sizeof(float) * logits.size());
    std::vector<RowChoice> found(kRows);
    ops_->choose(rows, asked, found);

    SamplerScratch scratch;
    scratch.reserve(vocab);
    std::vector<float> distribution(static_cast<size_t>(size)), drafted(distribution.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("vocab " + std::to_string(vocab) + " request " + std::to_string(i));
      const float* const first = &logits[static_cast<size_t>(requests[i].row * stride)];
      std::vector<float> row(first, first + vocab);
      if (requests[i].pick == Pick::kDraft) requests[i].distribution = distribution.data();
      const RowChoice expected = choose_row(row.data(), vocab, requests[i], scratch);
      EXPECT_EQ(found[i].token, expected.token);
      EXPECT_EQ(found[i].rank, expected.rank);
      ASSERT_EQ(found[i].logprobs.n_top, expected.logprobs.n_top);
      if (std::isfinite(expected.logprobs.token)) {
        EXPECT_NEAR(found[i].logprobs.token, expected.logprobs.token, 1e-4);
      }
      for (int32_t k = 0; k < expected.logprobs.n_top; ++k) {
        EXPECT_EQ(found[i].logprobs.top_ids[k], expected.logprobs.top_ids[k]);
        EXPECT_NEAR(found[i].logprobs.top_values[k], expected.logprobs.top_values[k], 1e-4);
      }
      if (requests[i].pick == Pick::kDraft) {
        ops_->download(reinterpret_cast<const std::byte*>(asked[i].distribution), drafted.data(),
                       sizeof(float) * drafted.size());
        float worst = 0;
        for (size_t k = 0; k < drafted.size(); ++k) worst = std::max(worst, std::abs(drafted[k] - distribution[k]));
        EXPECT_LT(worst, 1e-6);
      }
      if (i % 9 != 0) continue;
      RowChoice again;
      ops_->choose(rows, {&asked[i], 1}, {&again, 1});
      EXPECT_EQ(again.token, found[i].token);
      EXPECT_EQ(again.rank, found[i].rank);
      // A token that is given may be no number.
      EXPECT_EQ(std::bit_cast<uint32_t>(again.logprobs.token), std::bit_cast<uint32_t>(found[i].logprobs.token));
    }
  }
}

// More rows than the host has at a time, and not in order.
TEST_F(ChooseOnGpu, RowsTheHostDecidesComeInParts) {
  constexpr int32_t kRows = 300, kVocab = 151936;
  const std::vector<float> logits = rows_of(kRows, kVocab, kVocab);
  SamplingParams params;
  params.temperature = 0.9;
  params.top_k = 600;  // longer than lists are
  std::vector<RowRequest> requests(kRows);
  for (int32_t r = 0; r < kRows; ++r) {
    requests[static_cast<size_t>(r)].row = (r * 77) % kRows;
    requests[static_cast<size_t>(r)].position = r;
    requests[static_cast<size_t>(r)].params = &params;
  }
  const auto memory = ops_->allocate(sizeof(float) * logits.size());
  ops_->upload(logits.data(), memory->data(), sizeof(float) * logits.size());
  std::vector<RowChoice> found(requests.size());
  ops_->choose({memory->data(), kRows, kVocab, kVocab}, requests, found);
  SamplerScratch scratch;
  scratch.reserve(kVocab);
  for (size_t i = 0; i < requests.size(); i += 7) {
    const float* const first = &logits[static_cast<size_t>(requests[i].row) * kVocab];
    std::vector<float> row(first, first + kVocab);
    EXPECT_EQ(found[i].token, choose_row(row.data(), kVocab, requests[i], scratch).token) << i;
  }
}

}  // namespace
}  // namespace ashlar::testing
