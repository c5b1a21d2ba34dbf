// SPDX-License-Identifier: Apache-2.0
// The highest columns of rows of logits, in parts that are searched side by side. How a row is cut follows from its
// length alone.

#include "keys.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kParts = 32;  ///< a lane each when they meet

/// Of a part of a row: the highest keys in descending order, and the sum of exponentials relative to the first.
struct Part {
  uint64_t keys[kMaxHighest];
  float sum;
};

__global__ void __launch_bounds__(kThreads)
    part_kernel(Matrix logits, const int32_t* rows, int32_t most, bool with_sum, Part* parts) {
  __shared__ uint64_t keys[2][kThreads / 32];
  __shared__ float sums[kThreads / 32];
  begin_kernel();
  const int64_t row = rows != nullptr ? rows[blockIdx.x] : static_cast<int32_t>(blockIdx.x);
  const auto* const values = static_cast<const float*>(logits.data) + row * logits.stride;
  const int32_t length = (logits.cols + kParts - 1) / kParts, begin = static_cast<int32_t>(blockIdx.y) * length;
  const int32_t end = min(begin + length, logits.cols), mine = begin + static_cast<int32_t>(threadIdx.x);
  Part& part = parts[blockIdx.x * kParts + blockIdx.y];
  const auto highest_below = [&](uint64_t limit) {
    uint64_t best = 0;
#pragma unroll 8
    for (int32_t i = mine; i < end; i += kThreads) {
      const uint64_t key = key_of(values[i], i);
      if (key < limit) best = max_of(best, key);
    }
    return best;
  };
  uint64_t best = highest_below(~uint64_t{0}), first = 0;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int32_t n = 0; n < most; ++n) {
    const uint64_t of_warp = warp_highest(best);
    if (threadIdx.x % 32 == 0) keys[n % 2][warp] = of_warp;
    __syncthreads();
    uint64_t key = 0;
    for (int w = 0; w < kThreads / 32; ++w) key = max_of(key, keys[n % 2][w]);
    if (n == 0) first = key;
    if (threadIdx.x == 0) part.keys[n] = key;
    if (key != 0 && key == best) best = highest_below(key);
  }
  if (!with_sum) return;
  const float highest = first != 0 ? value_of(first) : 0.0F;
  float sum = 0;
#pragma unroll 8
  for (int32_t i = mine; i < end; i += kThreads) {
    if (values[i] > -CUDART_INF_F) sum += exp2f((values[i] - highest) * CUDART_L2E_F);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kThreads / 32; ++w) sum += sums[w];
  part.sum = sum;
}

/// A warp has a row.
__global__ void __launch_bounds__(32) whole_kernel(const Part* parts, int32_t most, Highest* out, int32_t* first) {
  begin_kernel();
  const Part* const of_row = parts + blockIdx.x * kParts;
  const auto lane = static_cast<int32_t>(threadIdx.x);
  int32_t at = 0;  // keys of this lane's part that were taken
  uint64_t next = of_row[lane].keys[0];
  const uint64_t highest = warp_highest(next);
  if (first != nullptr) {
    if (lane == 0) first[blockIdx.x] = highest != 0 ? column_of(highest) : -1;
    return;
  }
  float sum = 0;
  if (next != 0) sum = of_row[lane].sum * exp2f((value_of(next) - value_of(highest)) * CUDART_L2E_F);
  sum = warp_sum(sum);
  Highest& found = out[blockIdx.x];
  int32_t n = 0;
  for (; n < most; ++n) {
    const uint64_t key = warp_highest(next);
    if (key == 0) break;
    if (lane == 0) found.columns[n] = column_of(key), found.logits[n] = value_of(key);
    if (key == next) next = ++at < most ? of_row[lane].keys[at] : 0;
  }
  if (lane == 0) found.n = n, found.sum = sum;
}

/// A warp has a row, whose `most` highest columns and their values it lists; column 0 at minus infinity fills up.
__global__ void __launch_bounds__(32) list_kernel(const Part* parts, int32_t most, int32_t* ids, float* values) {
  begin_kernel();
  const Part* const of_row = parts + blockIdx.x * kParts;
  const auto lane = static_cast<int32_t>(threadIdx.x);
  int32_t at = 0;
  uint64_t next = of_row[lane].keys[0];
  for (int32_t n = 0; n < most; ++n) {
    const uint64_t key = warp_highest(next);
    if (lane == 0) {
      const int64_t place = int64_t{blockIdx.x} * most + n;
      ids[place] = key != 0 ? column_of(key) : 0;
      values[place] = key != 0 ? value_of(key) : -CUDART_INF_F;
    }
    if (key != 0 && key == next) next = ++at < most ? of_row[lane].keys[at] : 0;
  }
}

}  // namespace

size_t highest_bytes(int32_t rows) {
  static_assert(kParts == 32);
  return sizeof(Part) * kParts * static_cast<size_t>(rows);
}

void find_highest(cudaStream_t stream, const Matrix& logits, const int32_t* rows, int32_t n, int32_t most,
                  void* scratch, Highest* out) {
  auto* const parts = static_cast<Part*>(scratch);
  start(stream, {dim3(static_cast<unsigned>(n), kParts), kThreads}, part_kernel, logits, rows, most, true, parts);
  start(stream, {static_cast<unsigned>(n), 32}, whole_kernel, parts, most, out, nullptr);
}

void argmax(cudaStream_t stream, const Matrix& logits, void* scratch, int32_t* ids) {
  auto* const parts = static_cast<Part*>(scratch);
  start(stream, {dim3(rows_of(logits), kParts), kThreads}, part_kernel, logits, nullptr, 1, false, parts);
  start(stream, {rows_of(logits), 32}, whole_kernel, parts, 1, nullptr, ids);
}

void find_candidates(cudaStream_t stream, const Matrix& logits, int32_t n, void* scratch, int32_t* ids, float* values) {
  auto* const parts = static_cast<Part*>(scratch);
  start(stream, {dim3(rows_of(logits), kParts), kThreads}, part_kernel, logits, nullptr, n, false, parts);
  start(stream, {rows_of(logits), 32}, list_kernel, parts, n, ids, values);
}

}  // namespace ashlar::cuda
