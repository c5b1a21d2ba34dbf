#include "decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "decode/gumbel_max.h"
#include "decode/noise.h"

namespace ashlar {
namespace {

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

int32_t target_id(const int32_t* id_map, int32_t i) { return id_map != nullptr ? id_map[i] : i; }

float penalise(float logit, const SamplingParams& params, bool in_prompt, int32_t in_answer) {
  if (in_prompt || in_answer > 0) {
    const auto repetition = static_cast<float>(params.repetition_penalty);
    logit = logit > 0 ? logit / repetition : logit * repetition;
  }
  if (in_answer > 0) {
    logit -= static_cast<float>(params.presence_penalty + params.frequency_penalty * in_answer);
  }
  return logit;
}

// The top_k most likely of all tokens, unsorted. Candidates gather until twice as many as needed are there, then the
// better half stays and its worst is the bar for the rest of the row.
void gather_top_k(const float* logits, int32_t vocab, int32_t top_k, const int32_t* id_map,
                  std::vector<Candidate>& out) {
  const auto cut = [&] {
    std::nth_element(out.begin(), out.begin() + (top_k - 1), out.end(), more_likely);
    out.resize(top_k);
  };
  const size_t most = 2 * static_cast<size_t>(std::min(top_k, vocab));
  float bar = std::numeric_limits<float>::lowest();  // what is masked with minus infinity is no candidate
  for (int32_t i = 0; i < vocab; ++i) {
    if (!(logits[i] >= bar)) continue;
    out.push_back({target_id(id_map, i), logits[i], 0});
    if (out.size() >= most && top_k < vocab) {
      cut();
      bar = out[top_k - 1].logit;
    }
  }
  if (static_cast<int32_t>(out.size()) > top_k) cut();
}

// Cuts the tail by top-p of the mass `total`, then by min-p relative to the first, and normalises what is kept.
void keep_top_p_min_p(std::vector<Candidate>& candidates, double total, const SamplingParams& params) {
  size_t kept = 0;
  double before = 0;
  for (; kept < candidates.size(); ++kept) {
    const double probability = candidates[kept].probability / total;
    // Sums are rounded: with 1 nothing may be cut, however little it weighs.
    const bool beyond = params.top_p < 1.0 && before >= params.top_p;
    if (kept > 0 && (beyond || candidates[kept].probability < params.min_p * candidates[0].probability)) break;
    before += probability;
  }
  candidates.resize(kept);
  double kept_total = 0;
  for (const Candidate& candidate : candidates) kept_total += candidate.probability;
  for (Candidate& candidate : candidates) candidate.probability /= kept_total;
}

}  // namespace

void mask_logits(float* logits, int32_t vocab, std::span<const uint32_t> allowed) {
  for (int32_t first = 0; first < vocab; first += 32) {
    const uint32_t word = allowed[first / 32];
    if (word == ~0U) continue;
    const int32_t last = std::min(first + 32, vocab);
    for (int32_t i = first; i < last; ++i) {
      if ((word >> (i - first) & 1U) == 0) logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

void adjust_logits(float* logits, int32_t vocab, const SamplingParams& params, const TokenCounts* counts,
                   const int32_t* id_map) {
  if (params.logit_bias.empty() && !params.has_penalties()) return;
  if (id_map == nullptr) {
    for (const auto& [id, bias] : params.logit_bias) logits[id] += bias;
    if (!params.has_penalties()) return;
    for (const int32_t id : counts->seen()) {
      logits[id] = penalise(logits[id], params, counts->in_prompt(id), counts->in_answer(id));
    }
    return;
  }
  for (int32_t i = 0; i < vocab; ++i) {
    const int32_t id = id_map[i];
    for (const auto& [biased, bias] : params.logit_bias) {
      if (biased == id) logits[i] += bias;
    }
    if (params.has_penalties()) logits[i] = penalise(logits[i], params, counts->in_prompt(id), counts->in_answer(id));
  }
}

void filter_candidates(const float* logits, int32_t vocab, const SamplingParams& params, const int32_t* id_map,
                       std::vector<Candidate>& out) {
  const double inverse = 1.0 / params.temperature;
  const int32_t first = argmax(logits, vocab);
  const double highest = logits[first] * inverse;
  out.clear();
  double total = 0;
  if (params.top_k > 0) {
    gather_top_k(logits, vocab, params.top_k, id_map, out);
    for (Candidate& candidate : out) candidate.logit = static_cast<float>(candidate.logit * inverse - highest);
  } else {
    // The tail can go unlisted: its tokens are too far below the best for the noise, which spans 26.1, to lift them; or
    // min-p cuts them; or all of them together weigh less than what top-p drops.
    double floor = -40.0;
    if (params.min_p > 0) floor = std::max(floor, std::log(params.min_p) - 1e-4);
    if (params.top_p < 1.0) floor = std::max(floor, std::log((1.0 - params.top_p) / vocab) - 1e-4);
    total = exp_sum(logits, vocab, logits[first], static_cast<float>(inverse));
    const auto bar = static_cast<float>((floor + highest) * params.temperature);
    for (int32_t i = 0; i < vocab; ++i) {
      if (logits[i] >= bar) out.push_back({target_id(id_map, i), static_cast<float>(logits[i] * inverse - highest), 0});
    }
  }
  if (out.empty()) out.push_back({target_id(id_map, first), 0.0F, 0});  // only logits that are not numbers
  for (Candidate& candidate : out) {
    candidate.probability = std::exp(candidate.logit);
    if (params.top_k > 0) total += candidate.probability;
  }
  std::sort(out.begin(), out.end(), more_likely);
  keep_top_p_min_p(out, total, params);
}

int32_t pick_candidate(const std::vector<Candidate>& candidates, double total, double u) {
  double left = u * total;
  for (const Candidate& candidate : candidates) {
    left -= candidate.probability;
    if (left < 0) return candidate.id;
  }
  return candidates.back().id;
}

int32_t sample_token(const float* logits, int32_t vocab, const SamplingParams& params, int32_t position,
                     const int32_t* id_map, SamplerScratch& scratch) {
  if (params.greedy()) return target_id(id_map, argmax(logits, vocab));
  if (params.top_k <= 0 && params.top_p >= 1.0 && params.min_p <= 0.0) {
    const Draw draw = {params.seed, position};
    const double inverse = 1.0 / params.temperature;
    return id_map == nullptr ? gumbel_max(logits, vocab, inverse, draw)
                             : gumbel_max_mapped(logits, vocab, inverse, draw, id_map);
  }
  filter_candidates(logits, vocab, params, id_map, scratch.candidates);
  double best = -std::numeric_limits<double>::infinity();
  int32_t best_id = scratch.candidates.front().id;
  for (const Candidate& candidate : scratch.candidates) {
    const uint32_t word = noise::word(params.seed, position, candidate.id, noise::Domain::kGumbel);
    const double score = candidate.logit + noise::gumbel(word);
    if (score > best || (score == best && candidate.id < best_id)) {
      best = score;
      best_id = candidate.id;
    }
  }
  return best_id;
}

LogNormaliser normalise(const float* logits, int32_t vocab) {
  const float highest = logits[argmax(logits, vocab)];
  return {highest, std::log(exp_sum(logits, vocab, highest, 1.0F))};
}

void top_logprobs(const float* logits, int32_t vocab, const LogNormaliser& normaliser, int32_t tops,
                  TokenLogprobs& out) {
  out.n_top = top_k(logits, vocab, tops, out.top_ids);
  for (int32_t i = 0; i < out.n_top; ++i) out.top_values[i] = normaliser.logprob(logits[out.top_ids[i]]);
}

}  // namespace ashlar
