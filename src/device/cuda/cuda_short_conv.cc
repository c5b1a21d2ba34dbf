#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/short_conv.h"

namespace ashlar::cuda {

void CudaOps::short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  const ShortConvShape& shape = conv.shape;
  ASHLAR_CHECK(in.cols == shape.projected_width() && out.cols == shape.channels && shape.taps <= kMaxShortConvTaps);
  ASHLAR_CHECK(in.rows == conv.rows.n && out.rows == conv.rows.n);
  if (conv.rows.n == 0) return;
  ShortConvCall call;
  call.in = matrix_of(in);
  call.out = matrix_of(out);
  call.channels = shape.channels;
  call.taps = shape.taps;
  call.tap_weights = conv.taps;
  call.bias = conv.bias;
  call.rows = conv.rows.n;
  call.positions = conv.rows.positions;
  call.tables = conv.rows.tables;
  call.spans = reinterpret_cast<const Span*>(conv.rows.states);
  call.states = reinterpret_cast<char*>(conv.states.base);
  call.state_stride = conv.states.stride;
  call.log_stride = conv.states.log_stride;
  call.slots = conv.states.slots;
  call.log_rows = conv.states.log_rows;
  cuda::short_conv(memory_.stream(), call);
  check_launch("short_conv");
}

}  // namespace ashlar::cuda
