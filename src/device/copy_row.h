// SPDX-License-Identifier: Apache-2.0
#pragma once
// A row of activations as fp32, on devices whose memory is the host's own.

#include <algorithm>

#include "base/bf16.h"
#include "device/tensor.h"

namespace ashlar {

/// out [x.cols] = row r of x, of either type.
inline void copy_row(Tensor x, int32_t r, float* out) {
  if (x.dtype == DType::kF32) {
    std::copy_n(x.row(r), x.cols, out);
    return;
  }
  const BFloat16* const row = x.row<BFloat16>(r);
  std::transform(row, row + x.cols, out, [](BFloat16 value) { return to_float(value); });
}

}  // namespace ashlar
