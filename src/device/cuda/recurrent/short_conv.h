// SPDX-License-Identifier: Apache-2.0
#pragma once
// A gated short convolution and its states on the GPU (device/short_conv.h says how they are laid out).

#include "device/cuda/kernels.h"
#include "device/cuda/recurrent/state_rows.h"

namespace ashlar::cuda {

struct ShortConvCall : StateRows {
  Matrix in, out;
  int32_t channels = 0, taps = 0;
  const float *tap_weights = nullptr, *bias = nullptr;  ///< bias: null for none
};
void short_conv(cudaStream_t stream, const ShortConvCall& call);

}  // namespace ashlar::cuda
