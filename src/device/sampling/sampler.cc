// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "device/sampling/gumbel_max.h"
#include "device/sampling/noise.h"

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

// The tokens that the sequence has seen, and then once more those whose counts differ in this row.
void penalise_all(float* logits, const SamplingParams& params, const SeenTokens& seen) {
  std::array<float, SeenTokens::kMaxAfter> before;
  ASHLAR_CHECK_LE(seen.after.size(), before.size());
  const float before_without = seen.without >= 0 ? logits[seen.without] : 0;
  for (size_t i = 0; i < seen.after.size(); ++i) before[i] = logits[seen.after[i]];
  const TokenCounts& counts = *seen.counts;
  for (const int32_t id : counts.seen()) {
    logits[id] = penalise(logits[id], params, counts.in_prompt(id), counts.in_answer(id));
  }
  const auto again = [&](int32_t id, float logit) {
    logits[id] = penalise(logit, params, seen.in_prompt(id), seen.in_answer(id));
  };
  for (size_t i = 0; i < seen.after.size(); ++i) again(seen.after[i], before[i]);
  if (seen.without >= 0) again(seen.without, before_without);
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

// Where the tail begins, given the candidates one by one, the likeliest first: by top-p of the mass `total`, then by
// min-p relative to the first.
class Tail {
 public:
  Tail(const SamplingParams& params, double total) : params_(params), total_(total) {}

  bool begins_at(const Candidate& candidate) {
    if (highest_ < 0) highest_ = candidate.probability;
    // Sums are rounded: with 1 nothing may be cut, however little it weighs.
    const bool beyond = params_.top_p < 1.0 && before_ >= params_.top_p;
    if (before_ > 0 && (beyond || candidate.probability < params_.min_p * highest_)) return true;
    before_ += candidate.probability / total_;
    return false;
  }

 private:
  const SamplingParams& params_;
  double total_;
  double before_ = 0;
  double highest_ = -1;
};

// Sorts what begins at `first`, gives it probabilities and cuts the tail. True if there was one.
bool finish_candidates(std::vector<Candidate>& out, size_t first, Tail& tail) {
  std::sort(out.begin() + static_cast<int64_t>(first), out.end(), more_likely);
  for (size_t i = first; i < out.size(); ++i) {
    out[i].probability = std::exp(out[i].logit);
    if (!tail.begins_at(out[i])) continue;
    out.resize(i);
    return true;
  }
  return false;
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

void adjust_logits(float* logits, int32_t vocab, const SamplingParams& params, const SeenTokens& seen,
                   const int32_t* id_map) {
  if (params.logit_bias.empty() && !params.has_penalties()) return;
  if (id_map == nullptr) {
    for (const auto& [id, bias] : params.logit_bias) logits[id] += bias;
    if (params.has_penalties()) penalise_all(logits, params, seen);
    return;
  }
  for (int32_t i = 0; i < vocab; ++i) {
    const int32_t id = id_map[i];
    for (const auto& [biased, bias] : params.logit_bias) {
      if (biased == id) logits[i] += bias;
    }
    if (params.has_penalties()) logits[i] = penalise(logits[i], params, seen.in_prompt(id), seen.in_answer(id));
  }
}

// Others are too far below the best for the noise, which spans 26.1, to lift them; or min-p cuts them; or all of them
// together weigh less than what top-p drops.
double lowest_kept(const SamplingParams& params, int32_t vocab) {
  double floor = -40.0;
  if (params.min_p > 0) floor = std::max(floor, std::log(params.min_p) - 1e-4);
  if (params.top_p < 1.0) floor = std::max(floor, std::log((1.0 - params.top_p) / vocab) - 1e-4);
  return floor;
}

void filter_candidates(const float* logits, int32_t vocab, const SamplingParams& params, const int32_t* id_map,
                       std::vector<Candidate>& out, const WholeRow& row) {
  const double inverse = 1.0 / params.temperature;
  const int32_t first = argmax(logits, vocab);
  const double highest = logits[first] * inverse;
  const auto tempered = [&](float logit) { return static_cast<float>(logit * inverse - highest); };
  out.clear();
  if (params.top_k > 0) {
    gather_top_k(logits, vocab, params.top_k, id_map, out);
    double total = 0;
    for (Candidate& candidate : out) {
      candidate.logit = tempered(candidate.logit);
      total += std::exp(candidate.logit);
    }
    Tail tail(params, total);
    finish_candidates(out, 0, tail);
  } else {
    // The tail can go unlisted.
    const bool is_part = row.vocab > 0;
    const double floor = lowest_kept(params, is_part ? row.vocab : vocab);
    Tail tail(params, is_part ? row.tempered : exp_sum(logits, vocab, logits[first], static_cast<float>(inverse)));
    // A slice of likelihoods at a time: mostly the first one has enough for top-p, and a sorted list of all that could
    // be kept takes as long as the model's pass where the vocabulary has 150,000 tokens.
    const double slice = params.top_p < 1.0 ? 3.0 : -floor;
    auto above = std::numeric_limits<float>::quiet_NaN();
    bool enough = false;
    for (double to = 0; !enough && to > floor;) {
      to = std::max(to - slice, floor);
      const auto bar = static_cast<float>((to + highest) * params.temperature);
      const size_t listed = out.size();
      for (int32_t i = 0; i < vocab; ++i) {
        if (logits[i] >= bar && !(logits[i] >= above)) out.push_back({target_id(id_map, i), tempered(logits[i]), 0});
      }
      enough = finish_candidates(out, listed, tail);
      above = bar;
    }
  }
  if (out.empty()) out.push_back({target_id(id_map, first), 0.0F, 1.0});  // only logits that are not numbers
  double kept = 0;
  for (const Candidate& candidate : out) kept += candidate.probability;
  for (Candidate& candidate : out) candidate.probability /= kept;
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
                     const int32_t* id_map, SamplerScratch& scratch, const WholeRow& row) {
  if (params.greedy()) return target_id(id_map, argmax(logits, vocab));
  if (!params.filters()) {
    const Draw draw = {params.seed, position};
    const double inverse = 1.0 / params.temperature;
    return id_map == nullptr ? gumbel_max(logits, vocab, inverse, draw)
                             : gumbel_max_mapped(logits, vocab, inverse, draw, id_map);
  }
  filter_candidates(logits, vocab, params, id_map, scratch.candidates, row);
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
