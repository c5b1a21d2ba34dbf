// SPDX-License-Identifier: Apache-2.0
#pragma once
// The candidate of one position of a block, from a row of logits that the test has.

#include <vector>

#include "decode/block/candidates.h"
#include "device/sampling/choose_row.h"

namespace ashlar::testing {

inline void fill_candidate(Block& block, int32_t i, const Slot& slot, const CandidateOptions& options,
                           std::vector<float> logits, std::span<const int32_t> after = {}) {
  SamplerScratch scratch;
  const RowRequest request = candidate_request(block, i, slot, options, {}, after);
  take_candidate(block, i, slot, choose_row(logits.data(), static_cast<int32_t>(logits.size()), request, scratch), {});
}

}  // namespace ashlar::testing
