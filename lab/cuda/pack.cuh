// SPDX-License-Identifier: Apache-2.0
#pragma once
// The packed layout of a weight, made once at load on the device.

#include "product.cuh"

namespace ashlar::cuda {

/// Byte of element (row, column) in a packed weight of `k` padded inputs.
__host__ __device__ inline int64_t packed_place(int64_t row, int64_t column, int64_t k) {
  const int64_t tile = row / 64 * (k / 64) + column / 64;
  const int64_t piece = (column % 64 / 8) ^ (row % 8);
  return tile * kTileBytes + row % 64 * 128 + piece * 16 + column % 8 * 2;
}

/// from: [n, k_from] row-major; to: packed, zeroed where `from` has nothing. One thread moves 8 inputs of one output.
__global__ void pack_weight(const __nv_bfloat16* from, int32_t n, int32_t k_from, int32_t k, char* to) {
  const int64_t pieces = int64_t{(n + 63) / 64} * 64 * (k / 8);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < pieces; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / (k / 8), column = i % (k / 8) * 8;
    uint4 values = {};
    if (row < n && column < k_from) values = *reinterpret_cast<const uint4*>(from + row * k_from + column);
    *reinterpret_cast<uint4*>(to + packed_place(row, column, k)) = values;
  }
}

}  // namespace ashlar::cuda
