// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the states of recurrent layers lie (device/rows.h: StatePlane), and which rows go through them together.

#include "state_rows.h"

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

/// Whether a span begins at row `row`.
__device__ __forceinline__ bool begins_span(const StateRows& call, int32_t row) {
  return row == 0 || call.tables[row - 1] != call.tables[row];
}

/// Rows of the span that begins at row `first`; 0 where it began before.
__device__ __forceinline__ int32_t rows_of_span(const StateRows& call, int32_t first) {
  if (!begins_span(call, first)) return 0;
  int32_t n = 1;
  while (first + n < call.rows && call.tables[first + n] == call.tables[first]) ++n;
  return n;
}

/// Where a span lies among the rows of a call.
struct SpanRows {
  int32_t first, n;       ///< n == 0: there is no such span
  bool is_only_long_one;  ///< it has kLongSpan rows at least, and no other one has
};
inline constexpr int32_t kLongSpan = 64;

/// The span `index` of a call, by all of a block's kThreads threads together: each counts the spans that begin in a
/// part of the rows.
template <int kThreads>
__device__ __forceinline__ SpanRows find_span(const StateRows& call, int32_t index) {
  __shared__ int32_t counts[kThreads / 32];
  __shared__ int32_t bounds[2];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t part = (call.rows + kThreads - 1) / kThreads;
  const int32_t begin = min(thread * part, call.rows), end = min(begin + part, call.rows);
  int32_t mine = 0, long_ones = 0;
  for (int32_t r = begin; r < end; ++r) {
    if (!begins_span(call, r)) continue;
    ++mine;
    const int32_t later = r + kLongSpan - 1;
    if (later < call.rows && call.tables[later] == call.tables[r]) ++long_ones;
  }
  int32_t up_to = mine;  // spans that begin up to this thread's rows, of those of the warp
  for (int distance = 1; distance < 32; distance *= 2) {
    const int32_t other = __shfl_up_sync(~0u, up_to, distance);
    if (thread % 32 >= distance) up_to += other;
  }
  if (thread % 32 == 31) counts[thread / 32] = up_to;
  if (thread == 0) bounds[0] = bounds[1] = call.rows;
  const bool is_one = __syncthreads_count(long_ones > 0) == 1 && __syncthreads_count(long_ones > 1) == 0;
  int32_t ordinal = up_to - mine;
  for (int32_t warp = 0; warp < thread / 32; ++warp) ordinal += counts[warp];
  for (int32_t r = begin; r < end; ++r) {
    if (!begins_span(call, r)) continue;
    if (ordinal == index || ordinal == index + 1) bounds[ordinal - index] = r;
    ++ordinal;
  }
  __syncthreads();
  const int32_t n = bounds[1] - bounds[0];
  return {bounds[0], n, is_one && n >= kLongSpan};
}

}  // namespace ashlar::cuda
