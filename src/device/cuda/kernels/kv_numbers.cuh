// SPDX-License-Identifier: Apache-2.0
#pragma once
// What keys and values are in the cache. Kernels that touch it have a format as a parameter, and ask it how a vector
// of a head is kept, how eight numbers of one become bf16, and what scales are.
//
// A code of 8 bits is an integer, which bf16 holds exactly. So tensor cores multiply the codes themselves, and a key's
// scale multiplies its score, a value's its weight before that is rounded to bf16: two multiplications a key and query
// instead of two a number, and no number is rounded a second time. Every kernel does it at the same place, so bits do
// not depend on which of them has a row.

#include "heads.cuh"
#include "pairs.cuh"

namespace ashlar::cuda {

/// How far a head's vector of a token is into its page, in vectors.
__device__ __forceinline__ int64_t vector_of(const HeadsCall& call, int32_t token, int32_t kv_head, bool value) {
  return (int64_t{value} * call.n_kv_heads + kv_head) * kPageTokens + token;
}

template <KvNumbers kNumbers>
struct KvFormat;

template <>
struct KvFormat<KvNumbers::kBF16> {
  using Number = __nv_bfloat16;
  using Eight = uint4;  ///< numbers, as they lie
  static constexpr bool kScaled = false;

  static __device__ __forceinline__ Number* vector(const HeadsCall& call, const KvPlace& place, int32_t kv_head,
                                                   bool value) {
    return reinterpret_cast<Number*>(place.page) + vector_of(call, place.token, kv_head, value) * call.head_dim;
  }
  /// Scales of a key and of its value.
  static __device__ __forceinline__ float2 scales(const HeadsCall&, const KvPlace&, int32_t) {
    return make_float2(1, 1);
  }
  /// What lane `lane` of the warp has for its key: the same for all.
  static __device__ __forceinline__ float of_lane(float mine, int /*lane*/) { return mine; }
  static __device__ __forceinline__ uint4 to_bf16(const Eight& eight) { return eight; }
  static __device__ __forceinline__ uint32_t pair(const Number* at) { return *reinterpret_cast<const uint32_t*>(at); }
  /// Weights of two keys as they multiply values; sum: of the weights.
  static __device__ __forceinline__ uint32_t weigh(float low, float high, float2 /*scales*/, float& sum) {
    const uint32_t weights = pack_bf16(low, high);
    const float2 rounded = unpack_bf16(weights);
    sum += rounded.x + rounded.y;
    return weights;
  }

  /// Keeps a vector of which this lane has x(j), element lane + 32 j.
  template <int kMost, class Element>
  static __device__ __forceinline__ void keep(const HeadsCall& call, const KvPlace& place, int32_t kv_head, bool value,
                                              const Element& x) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Number* const to = vector(call, place, kv_head, value);
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      if (lane + 32 * j >= call.head_dim) break;
      to[lane + 32 * j] = __float2bfloat16_rn(x(j));
    }
  }
  static __device__ __forceinline__ void copy_scales(const HeadsCall&, const KvPlace&, const KvPlace&, int32_t) {}
  /// The vector as bf16 that it is read as, to `to`; returns its scale. Of a row that is not kept.
  template <int kMost, class Element>
  static __device__ __forceinline__ float read_back(int32_t head_dim, const Element& x, __nv_bfloat16* to) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      if (lane + 32 * j >= head_dim) break;
      to[lane + 32 * j] = __float2bfloat16_rn(x(j));
    }
    return 1;
  }
};

/// code = round(x / scale) with scale = max |x| / 127, by the same operations as Int8Codec of device/kv/kv_codec.cc.
template <>
struct KvFormat<KvNumbers::kInt8> {
  using Number = int8_t;
  using Eight = uint2;
  static constexpr bool kScaled = true;

  static __device__ __forceinline__ Number* vector(const HeadsCall& call, const KvPlace& place, int32_t kv_head,
                                                   bool value) {
    return reinterpret_cast<Number*>(place.page) + vector_of(call, place.token, kv_head, value) * call.head_dim;
  }
  static __device__ __forceinline__ float* scale(const HeadsCall& call, const KvPlace& place, int32_t kv_head,
                                                 bool value) {
    char* const after_codes = place.page + int64_t{2} * call.n_kv_heads * kPageTokens * call.head_dim;
    return reinterpret_cast<float*>(after_codes) + vector_of(call, place.token, kv_head, value);
  }
  static __device__ __forceinline__ float2 scales(const HeadsCall& call, const KvPlace& place, int32_t kv_head) {
    return make_float2(*scale(call, place, kv_head, false), *scale(call, place, kv_head, true));
  }
  static __device__ __forceinline__ float of_lane(float mine, int lane) { return __shfl_sync(~0u, mine, lane); }

  /// Two bytes of a word, which the selector brings into the lower halves of two, as bf16: 128 and the lower seven
  /// bits, less 128, or less 256 where the sign is set. Both are exact.
  static __device__ __forceinline__ uint32_t two(uint32_t word, uint32_t selector) {
    const uint32_t spread = __byte_perm(word, 0, selector);
    const uint32_t above = (spread & 0x007F007FU) | 0x43004300U, less = (spread & 0x00800080U) | 0xC300C300U;
    const __nv_bfloat162 sum =
        __hadd2(reinterpret_cast<const __nv_bfloat162&>(above), reinterpret_cast<const __nv_bfloat162&>(less));
    return reinterpret_cast<const uint32_t&>(sum);
  }
  static __device__ __forceinline__ uint4 to_bf16(const Eight& eight) {
    return make_uint4(two(eight.x, 0x4140), two(eight.x, 0x4342), two(eight.y, 0x4140), two(eight.y, 0x4342));
  }
  static __device__ __forceinline__ uint32_t pair(const Number* at) {
    return two(*reinterpret_cast<const uint16_t*>(at), 0x4140);
  }
  /// The sum is that of weights before they are rounded: products of a weight and a scale are rounded otherwise than
  /// the weight would be, so that there is no error to cancel.
  static __device__ __forceinline__ uint32_t weigh(float low, float high, float2 scales, float& sum) {
    sum += low + high;
    return pack_bf16(low * scales.x, high * scales.y);
  }

  /// write(i, code) of each element i of this lane. Returns the scale.
  template <int kMost, class Element, class Write>
  static __device__ __forceinline__ float encode(int32_t head_dim, const Element& x, const Write& write) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float highest = 0, zero = 0;  // the latter no number if one of x is none, as the maximum might not be
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      if (lane + 32 * j >= head_dim) break;
      highest = fmaxf(highest, fabsf(x(j)));
      zero += x(j) * 0.0F;
    }
    highest = warp_max(highest);
    zero = warp_sum(zero);
    constexpr float kLeast = 1e-30F;  // all less is zero: its inverse is no number
    const float scale = (highest < kLeast ? 0.0F : highest / 127.0F) + zero;
    const float inverse = scale > 0 ? 127.0F / highest : 0.0F;
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      if (lane + 32 * j >= head_dim) break;
      const float scaled = x(j) * inverse;
      const float bounded = scaled >= -127.0F ? fminf(scaled, 127.0F) : -127.0F;
      constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
      write(lane + 32 * j, static_cast<int8_t>(__float_as_uint(bounded + kMagic) & 0xFFU));
    }
    return scale;
  }
  template <int kMost, class Element>
  static __device__ __forceinline__ void keep(const HeadsCall& call, const KvPlace& place, int32_t kv_head, bool value,
                                              const Element& x) {
    Number* const to = vector(call, place, kv_head, value);
    const float of_all = encode<kMost>(call.head_dim, x, [&](int i, int8_t code) { to[i] = code; });
    if (threadIdx.x % 32 == 0) *scale(call, place, kv_head, value) = of_all;
  }
  template <int kMost, class Element>
  static __device__ __forceinline__ float read_back(int32_t head_dim, const Element& x, __nv_bfloat16* to) {
    return encode<kMost>(head_dim, x, [&](int i, int8_t code) { to[i] = __int2bfloat16_rn(code); });
  }
  static __device__ __forceinline__ void copy_scales(const HeadsCall& call, const KvPlace& from, const KvPlace& to,
                                                     int32_t kv_head) {
    for (const bool value : {false, true}) *scale(call, to, kv_head, value) = *scale(call, from, kv_head, value);
  }
};

/// work(format) with the format of these numbers.
template <class Work>
void with_format(KvNumbers numbers, const Work& work) {
  numbers == KvNumbers::kInt8 ? work(KvFormat<KvNumbers::kInt8>{}) : work(KvFormat<KvNumbers::kBF16>{});
}

}  // namespace ashlar::cuda
