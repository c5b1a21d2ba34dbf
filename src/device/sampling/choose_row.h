#pragma once
// What Ops::choose says of one row, for devices whose logits the host can read.

#include "device/choose.h"
#include "device/sampling/sampler.h"

namespace ashlar {

/// Overwrites the row. logits: [vocab]; pointers of the request that are to device memory must be readable here.
RowChoice choose_row(float* logits, int32_t vocab, const RowRequest& request, SamplerScratch& scratch);

}  // namespace ashlar
