// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/likeliest_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/sampling/noise.h"

namespace ashlar {
namespace {

struct Scored {
  int32_t id;
  double score;  // logit, with noise
};

bool better(const Scored& a, const Scored& b) { return a.score != b.score ? a.score > b.score : a.id < b.id; }

constexpr int32_t kWithNoise = 2 * LikeliestTokens::kMost;  // for noise to choose from

}  // namespace

int32_t looked_at(const SamplingParams& params) { return params.greedy() ? LikeliestTokens::kMost : kWithNoise; }

void find_likeliest(const float* logits, int32_t vocab, const SamplingParams& params, int32_t position,
                    const int32_t* id_map, SamplerScratch& scratch, LikeliestTokens& out) {
  int32_t best[kWithNoise];
  float values[kWithNoise];
  const int32_t n = top_k(logits, vocab, looked_at(params), best);
  out.n = 0;
  if (n == 0) return;
  for (int32_t i = 0; i < n; ++i) values[i] = logits[best[i]];
  const double sum =
      params.greedy() ? rough_exp_sum(logits, vocab, values[0]) : exp_sum(logits, vocab, values[0], 1.0F);
  const int32_t chosen = params.greedy() ? -1 : sample_token(logits, vocab, params, position, id_map, scratch);
  find_likeliest({n, best, values, sum}, params, position, id_map, chosen, out);
}

void find_likeliest(const HighestLogits& best, const SamplingParams& params, int32_t position, const int32_t* id_map,
                    int32_t chosen, LikeliestTokens& out) {
  const auto id_of = [id_map](int32_t i) { return id_map != nullptr ? id_map[i] : i; };
  const double highest = best.logits[0];
  out.n = 0;
  if (params.greedy()) {
    const double log_all = std::log(best.sum);
    for (; out.n < std::min(best.n, LikeliestTokens::kMost); ++out.n) {
      const auto at = static_cast<size_t>(out.n);
      out.ids[at] = id_of(best.columns[out.n]);
      out.log_chance[at] = static_cast<float>(best.logits[out.n] - highest - log_all);
    }
    return;
  }
  Scored scored[kWithNoise + 1];
  const int32_t n = std::min(best.n, kWithNoise);
  double rest = best.sum;
  double top = -std::numeric_limits<double>::infinity();
  for (int32_t i = 0; i < n; ++i) {
    const double logit = best.logits[i] - highest;
    rest -= std::exp(logit);
    const int32_t id = id_of(best.columns[i]);
    const uint32_t word = noise::word(params.seed, position, id, noise::Domain::kGumbel);
    scored[i] = {id, logit + params.temperature * noise::gumbel(word)};
    top = std::max(top, scored[i].score);
  }
  // Filters and noise may choose one that is not among them, and with filters not the one with the highest score.
  int32_t count = n;
  auto* found = std::find_if(scored, scored + n, [chosen](const Scored& s) { return s.id == chosen; });
  if (found == scored + n) ++count;
  *found = {chosen, top};
  std::swap(*found, scored[0]);
  std::sort(scored + 1, scored + count, better);
  double sum = std::max(rest, 0.0);
  for (int32_t i = 0; i < count; ++i) sum += std::exp(scored[i].score);
  const double log_sum = std::log(sum);
  for (; out.n < std::min(count, LikeliestTokens::kMost); ++out.n) {
    const auto at = static_cast<size_t>(out.n);
    out.ids[at] = scored[out.n].id;
    out.log_chance[at] = static_cast<float>(scored[out.n].score - log_sum);
  }
}

}  // namespace ashlar
