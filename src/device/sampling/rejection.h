// SPDX-License-Identifier: Apache-2.0
#pragma once
// Classic speculative sampling (Leviathan et al. 2023; Chen et al. 2023): accept the draft with min(1, p/q), otherwise
// draw from the normalised max(p - q, 0). Lossless in distribution for any q, if drafts were drawn in the order of
// their positions, each knowing those before it; without q for a draft that counts as certain, however it was made.

#include <algorithm>

#include "device/sampling/noise.h"
#include "device/sampling/sampler.h"

namespace ashlar {

inline double uniform_of(const RowRequest& request, noise::Domain domain) {
  return noise::uniform(noise::word(request.params->seed, request.position, 0, domain));
}

/// Whether the row is decided by rejection, or its draft drawn for that: not by the noise of its tokens.
inline bool is_by_rejection(const RowRequest& request) {
  return request.pick == Pick::kDraft || (request.pick == Pick::kVerified && !request.params->greedy());
}

inline bool accepts_draft(const RowRequest& request, double p, double q) {
  return uniform_of(request, noise::Domain::kAccept) * q < p;
}

/// The draft or another token. list(): the distribution, into `kept`. q_of(id): of a token, in the draft's.
template <class List, class Proposed>
int32_t verify_by_rejection(const RowRequest& request, const List& list, const Proposed& q_of,
                            std::vector<Candidate>& kept) {
  const int32_t draft = request.token;
  list();
  double total = 1.0;
  if (draft >= 0) {
    const auto found = std::find_if(kept.begin(), kept.end(), [&](const Candidate& c) { return c.id == draft; });
    if (found != kept.end() && accepts_draft(request, found->probability, q_of(draft))) return draft;
    double residual = 0;
    for (Candidate& candidate : kept) {
      candidate.probability = std::max(candidate.probability - q_of(candidate.id), 0.0);
      residual += candidate.probability;
    }
    if (residual > 0) {
      total = residual;
    } else {
      list();
    }
  }
  return pick_candidate(kept, total, uniform_of(request, noise::Domain::kResample));
}

}  // namespace ashlar
