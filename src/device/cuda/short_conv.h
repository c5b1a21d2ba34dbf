#pragma once
// A gated short convolution and its states on the GPU (device/short_conv.h says how they are laid out).

#include "kernels.h"

namespace ashlar::cuda {

struct ShortConvCall {
  Matrix in, out;
  int32_t channels = 0, taps = 0;
  const float *tap_weights = nullptr, *bias = nullptr;  ///< bias: null for none
  int32_t rows = 0;
  const int32_t *positions = nullptr, *tables = nullptr;
  const Span* spans = nullptr;
  char* states = nullptr;
  int64_t state_stride = 0, log_stride = 0;
  int32_t slots = 0, log_rows = 0;
};
void short_conv(cudaStream_t stream, const ShortConvCall& call);

}  // namespace ashlar::cuda
