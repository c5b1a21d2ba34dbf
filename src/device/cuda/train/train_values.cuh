// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values of matrices, one or four at a time: four where all rows begin at multiples of four values.

#include "../kernels/device_math.cuh"

namespace ashlar::cuda::train {

inline constexpr int kThreads = 256;

/// Place of a thread's values, and the step to its next ones.
__device__ __forceinline__ uint32_t first_group() { return blockIdx.x * kThreads + threadIdx.x; }
__device__ __forceinline__ uint32_t group_step() { return gridDim.x * kThreads; }

template <int kWidth>
struct Values {
  float v[kWidth];
};

template <int kWidth>
__device__ __forceinline__ Values<kWidth> read(const Matrix& x, int64_t row, int32_t group) {
  const int64_t at = row * x.stride + int64_t{group} * kWidth;
  if constexpr (kWidth == 1) {
    return {{load(x.data, at, x.is_f32)}};
  } else {
    static_assert(kWidth == 4);
    if (x.is_f32) {
      const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + at);
      return {{four.x, four.y, four.z, four.w}};
    }
    const uint2 bits = *reinterpret_cast<const uint2*>(static_cast<const __nv_bfloat16*>(x.data) + at);
    const float2 low = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.x));
    const float2 high = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.y));
    return {{low.x, low.y, high.x, high.y}};
  }
}

template <int kWidth>
__device__ __forceinline__ void write(const Matrix& out, int64_t row, int32_t group, const Values<kWidth>& values) {
  const int64_t at = row * out.stride + int64_t{group} * kWidth;
  if constexpr (kWidth == 1) {
    store(out.data, at, out.is_f32, values.v[0]);
  } else {
    if (out.is_f32) {
      *reinterpret_cast<float4*>(static_cast<float*>(out.data) + at) =
          make_float4(values.v[0], values.v[1], values.v[2], values.v[3]);
      return;
    }
    uint2 bits;
    reinterpret_cast<__nv_bfloat162&>(bits.x) = __floats2bfloat162_rn(values.v[0], values.v[1]);
    reinterpret_cast<__nv_bfloat162&>(bits.y) = __floats2bfloat162_rn(values.v[2], values.v[3]);
    *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(out.data) + at) = bits;
  }
}

/// fn(row, group) of every group of kWidth columns.
template <int kWidth, class Fn>
__device__ __forceinline__ void for_groups(const Matrix& shape, const Fn& fn) {
  const uint32_t groups = static_cast<uint32_t>(shape.cols) / kWidth;
  const uint32_t n = static_cast<uint32_t>(shape.rows) * groups;
  for (uint32_t i = first_group(); i < n; i += group_step()) fn(i / groups, static_cast<int32_t>(i % groups));
}

inline int64_t groups_of(const Matrix& x, int width) { return int64_t{x.rows} * (x.cols / width); }

inline bool takes_four(const Matrix& x) {
  const size_t bytes = x.is_f32 ? 16 : 8;
  return x.cols % 4 == 0 && x.stride % 4 == 0 && reinterpret_cast<uintptr_t>(x.data) % bytes == 0;
}

/// Blocks for `groups` groups of values, a few for each thread.
inline unsigned blocks_for_groups(int64_t groups) {
  constexpr int64_t kMost = 132 * 16;
  const int64_t blocks = (groups + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

}  // namespace ashlar::cuda::train
