// SPDX-License-Identifier: Apache-2.0
#pragma once
// What keys and values are in the cache. Kernels that touch it have a format as a parameter, and ask it how a vector
// of a head is kept, how eight numbers of one become bf16, what scales are, and whether coordinates are rotated.
//
// Tensor cores multiply the bf16 that a code stands for. A key's scale multiplies its score, a value's its weight
// before that is rounded to bf16: two multiplications a key and query instead of two a number. Every kernel does it at
// the same place, so bits do not depend on which of them has a row. Where keys and values are rotated, so are a row's
// queries before they are rounded to bf16, and its answers back after they were divided by their weights.

#include "../kv/codes.cuh"
#include "../kv/rotation.cuh"
#include "heads.cuh"

namespace ashlar::cuda {

/// A page: vectors of keys, [n_kv_heads, kPageTokens], then those of values, then, of codes, their scales, which are
/// [2, n_kv_heads, kPageTokens] floats.
template <class KeyNumbers, class ValueNumbers, bool kHasScales, bool kIsRotated>
struct KvPages {
  using Keys = KeyNumbers;
  using Values = ValueNumbers;
  static constexpr bool kScaled = kHasScales, kRotated = kIsRotated;

  template <class Numbers>
  static __host__ __device__ constexpr int64_t bytes_of(int64_t numbers) {
    return (numbers * Numbers::kBits) >> 3;
  }
  static __host__ __device__ constexpr int64_t page_bytes(int32_t n_kv_heads, int32_t d) {
    const int64_t vectors = int64_t{n_kv_heads} * kPageTokens;
    return bytes_of<Keys>(vectors * d) + bytes_of<Values>(vectors * d) + (kScaled ? 8 * vectors : 0);
  }
  /// How far a token's vector is into those of keys or values.
  static __device__ __forceinline__ int64_t vector_of(const KvPlace& place, int32_t kv_head) {
    return int64_t{kv_head} * kPageTokens + place.token;
  }

  static __device__ __forceinline__ char* key(const HeadsCall& call, const KvPlace& place, int32_t kv_head) {
    return place.page + vector_of(place, kv_head) * bytes_of<Keys>(call.head_dim);
  }
  static __device__ __forceinline__ char* value(const HeadsCall& call, const KvPlace& place, int32_t kv_head) {
    return place.page + bytes_of<Keys>(int64_t{call.n_kv_heads} * kPageTokens * call.head_dim) +
           vector_of(place, kv_head) * bytes_of<Values>(call.head_dim);
  }
  template <bool kValue>
  static __device__ __forceinline__ char* vector(const HeadsCall& call, const KvPlace& place, int32_t kv_head) {
    return kValue ? value(call, place, kv_head) : key(call, place, kv_head);
  }
  static __device__ __forceinline__ float* scale(const HeadsCall& call, const KvPlace& place, int32_t kv_head,
                                                 bool value) {
    const int64_t vectors = int64_t{call.n_kv_heads} * kPageTokens;
    char* const after_codes =
        place.page + bytes_of<Keys>(vectors * call.head_dim) + bytes_of<Values>(vectors * call.head_dim);
    return reinterpret_cast<float*>(after_codes) + (value ? vectors : 0) + vector_of(place, kv_head);
  }
  /// Scales of a key and of its value.
  static __device__ __forceinline__ float2 scales(const HeadsCall& call, const KvPlace& place, int32_t kv_head) {
    if constexpr (kScaled) {
      return make_float2(*scale(call, place, kv_head, false), *scale(call, place, kv_head, true));
    } else {
      return make_float2(1, 1);
    }
  }
  /// What lane `lane` of the warp has for its key; where there are no scales the same for all.
  static __device__ __forceinline__ float of_lane(float mine, int lane) {
    return kScaled ? __shfl_sync(~0u, mine, lane) : mine;
  }
  /// Weights of two keys as they multiply values; sum: of the weights. With scales the sum is that of weights before
  /// they are rounded: products of a weight and a scale are rounded otherwise than the weight would be, so that there
  /// is no error to cancel.
  static __device__ __forceinline__ uint32_t weigh(float low, float high, float2 scales, float& sum) {
    if constexpr (kScaled) {
      sum += low + high;
      return pack_bf16(low * scales.x, high * scales.y);
    } else {
      const uint32_t weights = pack_bf16(low, high);
      const float2 rounded = unpack_bf16(weights);
      sum += rounded.x + rounded.y;
      return weights;
    }
  }

  /// Codes of a vector of d numbers, of which this lane has x(i), element lane + 32 i. Returns its scale.
  template <class Numbers, int kMine, class Element>
  static __device__ __forceinline__ float encode(int32_t d, const Element& x, typename Numbers::Code (&codes)[kMine]) {
    float numbers[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      numbers[i] = static_cast<int>(threadIdx.x) % 32 + 32 * i < d ? x(i) : 0.0F;
    }
    if constexpr (kRotated) StridedVector<kMine>::rotate(numbers, d);
    return Numbers::choose(d, numbers, codes);
  }
  template <class Numbers, int kMine, class Element>
  static __device__ __forceinline__ float keep_as(char* to, int32_t d, const Element& x) {
    typename Numbers::Code codes[kMine];
    const float scale = encode<Numbers>(d, x, codes);
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (32 * i >= d) break;
      Numbers::keep(to, d, static_cast<int>(threadIdx.x) % 32 + 32 * i, codes[i]);
    }
    return scale;
  }
  /// Keeps the vector.
  template <int kMine, class Element>
  static __device__ __forceinline__ void keep(const HeadsCall& call, const KvPlace& place, int32_t kv_head,
                                              bool is_value, const Element& x) {
    const float of_all = is_value ? keep_as<Values, kMine>(value(call, place, kv_head), call.head_dim, x)
                                  : keep_as<Keys, kMine>(key(call, place, kv_head), call.head_dim, x);
    if constexpr (kScaled) {
      if (threadIdx.x % 32 == 0) *scale(call, place, kv_head, is_value) = of_all;
    }
  }
  template <class Numbers, int kMine, class Element>
  static __device__ __forceinline__ float read_back_as(int32_t d, const Element& x, __nv_bfloat16* to) {
    typename Numbers::Code codes[kMine];
    const float scale = encode<Numbers>(d, x, codes);
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (lane + 32 * i < d) to[lane + 32 * i] = Numbers::value_of(codes[i]);
    }
    return scale;
  }
  /// The vector as bf16 that it is read as, to `to`; returns its scale. Of a row that is not kept.
  template <int kMine, class Element>
  static __device__ __forceinline__ float read_back(int32_t d, bool is_value, const Element& x, __nv_bfloat16* to) {
    return is_value ? read_back_as<Values, kMine>(d, x, to) : read_back_as<Keys, kMine>(d, x, to);
  }

  /// Copies a key and its value, by a block of threads.
  static __device__ __forceinline__ void copy(const HeadsCall& call, const KvPlace& from, const KvPlace& to,
                                              int32_t kv_head) {
    const auto copy_bytes = [](const char* source, char* target, int64_t bytes) {  // an even number of them
      for (int64_t i = 2 * threadIdx.x; i < bytes; i += 2 * blockDim.x) {
        write_as(target + i, read_as<uint16_t>(source + i));
      }
    };
    copy_bytes(key(call, from, kv_head), key(call, to, kv_head), bytes_of<Keys>(call.head_dim));
    copy_bytes(value(call, from, kv_head), value(call, to, kv_head), bytes_of<Values>(call.head_dim));
    if constexpr (kScaled) {
      if (threadIdx.x != 0) return;
      for (const bool of_value : {false, true}) {
        *scale(call, to, kv_head, of_value) = *scale(call, from, kv_head, of_value);
      }
    }
  }
};

/// work(format) with the format of these numbers.
template <class Work>
void with_format(KvNumbers numbers, const Work& work) {
  switch (numbers) {
    case KvNumbers::kBF16:
      return work(KvPages<PlainNumbers, PlainNumbers, false, false>{});
    case KvNumbers::kInt8:
      return work(KvPages<Integers8, Integers8, true, false>{});
    case KvNumbers::kTq4:
      return work(KvPages<Integers6, Levels4, true, true>{});
  }
}

}  // namespace ashlar::cuda
