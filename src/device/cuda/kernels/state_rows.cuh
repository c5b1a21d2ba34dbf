// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the states of recurrent layers lie (device/rows.h: StatePlane), and which rows go through them together.

#include "../kernels.h"

namespace ashlar::cuda {

__device__ __forceinline__ float* state_of(const StateRows& call, int32_t slot) {
  return reinterpret_cast<float*>(call.states + slot * (call.state_stride + call.log_rows * call.log_stride));
}
__device__ __forceinline__ float* log_of(const StateRows& call, int32_t slot, int32_t row) {
  return reinterpret_cast<float*>(reinterpret_cast<char*>(state_of(call, slot)) + call.state_stride +
                                  row * call.log_stride);
}
__device__ __forceinline__ float* snapshot_of(const StateRows& call, int32_t index) {
  return reinterpret_cast<float*>(reinterpret_cast<char*>(state_of(call, call.slots)) + index * call.state_stride);
}

/// Rows of the span that begins at row `first`; 0 where it began before.
__device__ __forceinline__ int32_t rows_of_span(const StateRows& call, int32_t first) {
  const int32_t table = call.tables[first];
  if (first > 0 && call.tables[first - 1] == table) return 0;
  int32_t n = 1;
  while (first + n < call.rows && call.tables[first + n] == table) ++n;
  return n;
}

}  // namespace ashlar::cuda
