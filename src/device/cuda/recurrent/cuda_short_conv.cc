// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/recurrent/short_conv.h"

namespace ashlar::cuda {

void CudaOps::short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  const ShortConvShape& shape = conv.shape;
  ASHLAR_CHECK(in.cols == shape.projected_width() && out.cols == shape.channels && shape.taps <= kMaxShortConvTaps);
  ASHLAR_CHECK(in.rows == conv.rows.n && out.rows == conv.rows.n);
  if (conv.rows.n == 0) return;
  ShortConvCall call = {state_rows(conv.rows, conv.states), matrix_of(in), matrix_of(out)};
  call.channels = shape.channels;
  call.taps = shape.taps;
  call.tap_weights = conv.taps;
  call.bias = conv.bias;
  cuda::short_conv(memory_.stream(), call);
  check_launch("short_conv");
}

}  // namespace ashlar::cuda
