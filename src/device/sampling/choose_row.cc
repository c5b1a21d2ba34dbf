// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/choose_row.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "device/host_ops.h"
#include "device/sampling/likeliest_tokens.h"
#include "device/sampling/rejection.h"

namespace ashlar {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

int32_t verify_row(const float* logits, int32_t vocab, const RowRequest& request, SamplerScratch& scratch) {
  const float* const q = request.draft_q;
  return verify_by_rejection(
      request, [&] { filter_candidates(logits, vocab, *request.params, nullptr, scratch.candidates); },
      [&](int32_t id) { return q != nullptr          ? q[id]
                               : id == request.token ? 1.0
                                                     : 0.0; }, scratch.candidates);
}

int32_t draw_draft(const float* logits, int32_t vocab, const RowRequest& request, SamplerScratch& scratch) {
  std::fill_n(request.distribution, request.distribution_size, 0.0F);
  filter_candidates(logits, vocab, *request.params, request.id_map, scratch.candidates);
  for (const Candidate& candidate : scratch.candidates) {
    request.distribution[candidate.id] = static_cast<float>(candidate.probability);
  }
  return pick_candidate(scratch.candidates, 1.0, uniform_of(request, noise::Domain::kDraft));
}

int32_t rank_of(const float* logits, int32_t vocab, int32_t id) {
  const float own = logits[id];
  int32_t before = 0;
  for (int32_t i = 0; i < id; ++i) before += logits[i] >= own ? 1 : 0;
  for (int32_t i = id + 1; i < vocab; ++i) before += logits[i] > own ? 1 : 0;
  return before + 1;
}

bool adjusts(const RowRequest& request) {
  const SamplingParams& params = *request.params;
  return !params.logit_bias.empty() || params.has_penalties() || !request.allowed.empty() ||
         (request.repeated >= 0 && request.repeat_penalty != 0);
}

void adjust(float* logits, int32_t vocab, const RowRequest& request) {
  if (!request.allowed.empty()) mask_logits(logits, vocab, request.allowed);
  adjust_logits(logits, vocab, *request.params, request.seen, request.id_map);
  if (request.repeated >= 0) logits[request.repeated] -= request.repeat_penalty;
}

int32_t pick_token(const float* logits, int32_t vocab, const RowRequest& request, SamplerScratch& scratch,
                   RowChoice& choice) {
  if (request.pick == Pick::kDraft) return draw_draft(logits, vocab, request, scratch);
  if (is_by_rejection(request)) return verify_row(logits, vocab, request, scratch);
  if (!request.statistics) {
    return sample_token(logits, vocab, *request.params, request.position, request.id_map, scratch);
  }
  const RowStatistics row = choice.statistics = row_statistics(logits, vocab);
  choice.probability = row.p_best;
  const auto id_of = [&](int32_t column) { return request.id_map != nullptr ? request.id_map[column] : column; };
  if (request.params->greedy()) return id_of(row.best);
  const int32_t token = sample_token(logits, vocab, *request.params, request.position, request.id_map, scratch);
  if (request.id_map == nullptr && token != row.best) choice.probability = std::exp(logits[token] - row.log_sum);
  return token;
}

}  // namespace

RowChoice choose_row(float* logits, int32_t vocab, const RowRequest& request, SamplerScratch& scratch) {
  RowChoice choice;
  if (request.excluded >= 0) logits[request.excluded] = kNone;
  const bool logprobs = request.top_logprobs >= 0;
  LogNormaliser normaliser{};
  if (logprobs) {
    normaliser = normalise(logits, vocab);
    top_logprobs(logits, vocab, normaliser, request.top_logprobs, choice.logprobs);
  }
  if (request.pick == Pick::kGiven) {
    choice.token = request.token;
    choice.rank = rank_of(logits, vocab, request.token);
    choice.logprobs.token = normaliser.logprob(logits[request.token]);
    return choice;
  }
  // The token's own log-probability is of the raw logits, which the adjustment overwrites.
  const bool keeps_raw = logprobs && adjusts(request);
  if (keeps_raw) scratch.raw.assign(logits, logits + vocab);
  adjust(logits, vocab, request);
  if (request.pick == Pick::kLikeliest) {
    find_likeliest(logits, vocab, *request.params, request.position, request.id_map, scratch, choice.likeliest);
    return choice;
  }
  choice.token = pick_token(logits, vocab, request, scratch, choice);
  // What is no number is chosen only where nothing else is left.
  if (request.id_map == nullptr && !(logits[choice.token] > kNone)) {
    choice.token = -1;
  } else if (logprobs) {
    choice.logprobs.token = normaliser.logprob(keeps_raw ? scratch.raw[choice.token] : logits[choice.token]);
  }
  return choice;
}

// As many workers as there are rows take the next one each, so that each has the scratch of one thread.
void choose_rows(Ops& ops, float* logits, int64_t stride, int32_t vocab, std::span<const RowRequest> requests,
                 std::span<RowChoice> choices, std::vector<SamplerScratch>& scratch) {
  if (requests.empty()) return;
  scratch.resize(static_cast<size_t>(ops.threads()));
  for (SamplerScratch& of_thread : scratch) of_thread.reserve(vocab);
  std::atomic<size_t> next = 0;
  for_each_item(ops, static_cast<int32_t>(std::min(requests.size(), scratch.size())), [&](int32_t worker) {
    for (size_t i = next++; i < requests.size(); i = next++) {
      float* const row = logits + requests[i].row * stride;
      choices[i] = choose_row(row, vocab, requests[i], scratch[static_cast<size_t>(worker)]);
    }
  });
}

}  // namespace ashlar
