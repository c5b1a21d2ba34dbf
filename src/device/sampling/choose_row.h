// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Ops::choose says of rows that the host can read: those of its own memory, or copies.

#include <span>
#include <vector>

#include "device/ops.h"
#include "device/sampling/sampler.h"

namespace ashlar {

/// Overwrites the row. logits: [vocab]; pointers of the request that are to device memory must be readable here.
RowChoice choose_row(float* logits, int32_t vocab, const RowRequest& request, SamplerScratch& scratch);

/// Ops::choose for rows in host memory, on the host's threads of `ops`. Row r begins at logits + r * stride. scratch:
/// one for each thread, grown to the vocabulary once.
void choose_rows(Ops& ops, float* logits, int64_t stride, int32_t vocab, std::span<const RowRequest> requests,
                 std::span<RowChoice> choices, std::vector<SamplerScratch>& scratch);

}  // namespace ashlar
