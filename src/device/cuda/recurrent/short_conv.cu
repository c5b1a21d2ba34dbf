// SPDX-License-Identifier: Apache-2.0
// Gated short convolutions. A thread has a channel of a sequence and goes through its rows.

#include "../kernels/device_math.cuh"
#include "short_conv.h"
#include "state_rows.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxTaps = 16;  ///< as device/short_conv.h has it

/// Products b * x of the rows before, oldest first, of one channel.
struct Window {
  float rows[kMaxTaps - 1];
  int32_t before;

  __device__ void push(float newest) {
    for (int32_t t = 0; t + 1 < before; ++t) rows[t] = rows[t + 1];
    if (before > 0) rows[before - 1] = newest;
  }
  __device__ void copy_to(float* state, int32_t channels) const {
    for (int32_t t = 0; t < before; ++t) state[int64_t{t} * channels] = rows[t];
  }
};

__global__ void __launch_bounds__(kThreads) short_conv_kernel(ShortConvCall call) {
  begin_kernel();
  const auto first = static_cast<int32_t>(blockIdx.x);
  const auto c = static_cast<int32_t>(blockIdx.y) * kThreads + static_cast<int32_t>(threadIdx.x);
  if (c >= call.channels) return;
  const int32_t n = rows_of_span(call, first);
  if (n == 0) return;

  const Span& span = call.spans[call.tables[first]];
  const bool is_new = call.positions[first] == 0;
  const int32_t kept = n - min(span.choices, n);
  float* const state = state_of(call, span.slot) + c;
  Window window;
  window.before = call.taps - 1;
  for (int32_t t = 0; t < window.before; ++t) window.rows[t] = is_new ? 0.0F : state[int64_t{t} * call.channels];
  for (int32_t r = 0; r < span.replays && !is_new; ++r) window.push(log_of(call, span.slot, r)[c]);
  const float bias = call.bias != nullptr ? call.bias[c] : 0.0F;
  for (int32_t r = 0; r < n; ++r) {
    if (r == kept) window.copy_to(state, call.channels);
    const int64_t at = (int64_t{first} + r) * call.in.stride + c;
    const float b = load(call.in.data, at, call.in.is_f32);
    const float gate = load(call.in.data, at + call.channels, call.in.is_f32);
    const float newest = b * load(call.in.data, at + 2 * int64_t{call.channels}, call.in.is_f32);
    float sum = bias;
    for (int32_t t = 0; t < window.before; ++t) {
      sum = fmaf(call.tap_weights[int64_t{t} * call.channels + c], window.rows[t], sum);
    }
    sum = fmaf(call.tap_weights[int64_t{window.before} * call.channels + c], newest, sum);
    store(call.out.data, (int64_t{first} + r) * call.out.stride + c, call.out.is_f32, gate * sum);
    window.push(newest);
    if (r >= kept) log_of(call, span.slot, r - kept)[c] = newest;
    for (const Save& save : span.saves) {
      if (save.row != r) continue;
      window.copy_to(snapshot_of(call, save.snapshot) + c, call.channels);
    }
  }
}

}  // namespace

void short_conv(cudaStream_t stream, const ShortConvCall& call) {
  const dim3 grid(static_cast<unsigned>(call.rows), blocks_for(call.channels, kThreads));
  start(stream, {grid, kThreads}, short_conv_kernel, call);
}

}  // namespace ashlar::cuda
