// SPDX-License-Identifier: Apache-2.0
#pragma once
// The signed Hadamard rotation of a head's vector, by the operations of RotatedCodec of device/kv/kv_codec.cc in their
// order: levels of pairs at distance 1, 2, 4, ..., one factor, and signs before or after. So every arrangement of a
// vector over threads gives the same bits, which are the codec's.

#include "../kernels/device_math.cuh"

namespace ashlar::cuda {

/// Of 32 dimensions which ones change their sign: the bits of the codec's random words.
__host__ __device__ constexpr uint32_t signs_of(int word) {
  constexpr uint32_t kSigns[16] = {0x31C0FF00U, 0xBBE6F1FBU, 0xDE83AE8EU, 0xEF8A775CU, 0x39C30DABU, 0x133AD37FU,
                                   0x2A6529CBU, 0x43B6EA61U, 0x4E4E021EU, 0x6FA42AA9U, 0x465DD57CU, 0xBBCB2F39U,
                                   0x97C8F7F0U, 0x4D4D48C7U, 0x9A48EA8CU, 0xBAA86427U};
  return kSigns[word];
}
/// x, with another sign if bit `bit` of `signs` is set.
__device__ __forceinline__ float flipped(float x, uint32_t signs, int bit) {
  return __uint_as_float(__float_as_uint(x) ^ ((signs >> bit) << 31));
}

__device__ __forceinline__ float hadamard_factor(int32_t d) { return 1.0F / sqrtf(static_cast<float>(d)); }

/// A level whose pairs are `distance` lanes apart.
template <int kMine>
__device__ __forceinline__ void level_of_lanes(float (&x)[kMine], int distance) {
  const bool is_upper = (threadIdx.x & static_cast<unsigned>(distance)) != 0;
#pragma unroll
  for (float& mine : x) {
    const float other = __shfl_xor_sync(~0u, mine, distance);
    mine = is_upper ? other - mine : mine + other;
  }
}
/// A level whose pairs are `distance` places apart.
template <int kMine>
__device__ __forceinline__ void level_of_places(float (&x)[kMine], int distance) {
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    if ((i & distance) != 0) continue;
    const float a = x[i], b = x[i | distance];
    x[i] = a + b, x[i | distance] = a - b;
  }
}

/// A vector of which a lane of the warp has elements lane + 32 i, those from d on being zero.
template <int kMine>
struct StridedVector {
  static __device__ __forceinline__ void transform(float (&x)[kMine], int32_t d) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      if (distance < d) level_of_lanes(x, distance);
    }
#pragma unroll
    for (int distance = 1; distance < kMine; distance *= 2) {
      if (32 * distance < d) level_of_places(x, distance);
    }
    const float factor = hadamard_factor(d);
#pragma unroll
    for (float& value : x) value *= factor;
  }
  static __device__ __forceinline__ void flip(float (&x)[kMine]) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) x[i] = flipped(x[i], signs_of(i), static_cast<int>(threadIdx.x) % 32);
  }
  static __device__ __forceinline__ void rotate(float (&x)[kMine], int32_t d) {
    flip(x);
    transform(x, d);
  }
  static __device__ __forceinline__ void rotate_back(float (&x)[kMine], int32_t d) {
    transform(x, d);
    flip(x);
  }
};

/// A vector of kDim numbers in parts of 128, or one of less: of each a lane of a quarter as many has four that follow
/// one another, those of the next part after those of the one before.
template <int kDim>
struct VectorOfFours {
  static constexpr int kPart = kDim < 128 ? kDim : 128, kLanes = kPart / 4, kMine = kDim / kLanes;
  static __device__ __forceinline__ void transform(float (&x)[kMine]) {
    level_of_places(x, 1);
    level_of_places(x, 2);
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) level_of_lanes(x, distance);
#pragma unroll
    for (int distance = 4; distance < kMine; distance *= 2) level_of_places(x, distance);
#pragma unroll
    for (float& value : x) value *= hadamard_factor(kDim);
  }
  /// Signs of a lane l's elements i at bit l.
  static __host__ __device__ constexpr uint32_t of_lanes(int i) {
    uint32_t signs = 0;
    for (int l = 0; l < kLanes; ++l) {
      const int d = i / 4 * kPart + 4 * l + i % 4;
      signs |= ((signs_of(d / 32) >> (d % 32)) & 1U) << l;
    }
    return signs;
  }
  struct Signs {
    uint32_t of[kMine] = {};
  };
  static __host__ __device__ constexpr Signs signs() {
    Signs all;
    for (int i = 0; i < kMine; ++i) all.of[i] = of_lanes(i);
    return all;
  }
  static __device__ __forceinline__ void flip(float (&x)[kMine]) {
    constexpr Signs kSigns = signs();
#pragma unroll
    for (int i = 0; i < kMine; ++i) x[i] = flipped(x[i], kSigns.of[i], static_cast<int>(threadIdx.x) % kLanes);
  }
  static __device__ __forceinline__ void rotate(float (&x)[kMine]) {
    flip(x);
    transform(x);
  }
  static __device__ __forceinline__ void rotate_back(float (&x)[kMine]) {
    transform(x);
    flip(x);
  }
};

/// A vector of kDim numbers of which a lane of four has 8 i + 2 (lane % 4) + {0, 1} at 2 i and the next place.
template <int kDim>
struct VectorOfPairs {
  static __device__ __forceinline__ void rotate_back(float (&x)[kDim / 4]) {
    level_of_places(x, 1);
    level_of_lanes(x, 1);
    level_of_lanes(x, 2);
#pragma unroll
    for (int distance = 2; distance < kDim / 4; distance *= 2) level_of_places(x, distance);
#pragma unroll
    for (int i = 0; i < kDim / 4; ++i) {
      const int bit = i / 2 % 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
      x[i] = flipped(x[i] * hadamard_factor(kDim), signs_of(i / 8), bit);
    }
  }
};

}  // namespace ashlar::cuda
