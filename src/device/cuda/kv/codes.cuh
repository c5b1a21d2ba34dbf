// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of a head's vector as they lie in a page. Each kind says how many bits one has, how eight that follow one
// another become bf16, where pairs and eights of a vector are found, and how a warp keeps a vector of which a lane has
// elements lane + 32 i. Codes are chosen by the operations of device/kv/kv_codec.cc.

#include "../kernels/device_math.cuh"
#include "../kernels/pairs.cuh"

namespace ashlar::cuda {

template <class Word>
__device__ __forceinline__ Word read_as(const char* at) {
  return *reinterpret_cast<const Word*>(at);
}
template <class Word>
__device__ __forceinline__ void write_as(char* at, Word word) {
  *reinterpret_cast<Word*>(at) = word;
}

/// Numbers of a vector of kDim that attention's tiles take at a time: its parts, of which long vectors have two.
template <int kDim>
inline constexpr int kPartDim = kDim < 128 ? kDim : 128;

/// Of a part of a vector of kDim numbers eights at e, e + kStride, e + 2 kStride, ...: those that a lane of attention's
/// tiles has. Where none was loaded there are numbers all the same.
template <class Numbers, int kDim, int kStride>
struct ApartEights {
  static constexpr int kCount = kPartDim<kDim> / 8 / kStride;
  typename Numbers::Eight eights[kCount] = {};
  __device__ __forceinline__ void load(const char* vector, int e, int part) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) eights[i] = Numbers::eight(vector, kDim, e + (part * kCount + i) * kStride);
  }
  __device__ __forceinline__ uint4 to_bf16(int i) const { return Numbers::to_bf16(eights[i]); }
};

/// bf16, which codes are not.
struct PlainNumbers {
  static constexpr int kBits = 16;
  using Eight = uint4;
  template <int kDim, int kStride>
  using Apart = ApartEights<PlainNumbers, kDim, kStride>;

  static __device__ __forceinline__ Eight eight(const char* vector, int32_t /*d*/, int e) {
    return read_as<uint4>(vector + 16 * e);
  }
  static __device__ __forceinline__ uint4 to_bf16(const Eight& eight) { return eight; }
  /// Numbers i and i + 1, of an even i.
  static __device__ __forceinline__ uint32_t pair(const char* vector, int32_t /*d*/, int i) {
    return read_as<uint32_t>(vector + 2 * i);
  }

  using Code = __nv_bfloat16;
  template <int kMine>
  static __device__ __forceinline__ float choose(int32_t /*d*/, const float (&x)[kMine], Code (&codes)[kMine]) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) codes[i] = __float2bfloat16_rn(x[i]);
    return 1;
  }
  static __device__ __forceinline__ void keep(char* vector, int32_t d, int i, Code code) {
    if (i < d) write_as(vector + 2 * i, code);
  }
  static __device__ __forceinline__ __nv_bfloat16 value_of(Code code) { return code; }
};

/// code = round(x / scale) with scale = max |x| / kHighest, as choose_integers() has it. bf16 holds them exactly.
template <int kHighest>
struct Integers {
  using Code = int32_t;
  template <int kMine>
  static __device__ __forceinline__ float choose(int32_t /*d*/, const float (&x)[kMine], Code (&codes)[kMine]) {
    constexpr float kBound = kHighest;
    float highest = 0, zero = 0;  // the latter no number if one of x is none, as the maximum might not be
#pragma unroll
    for (const float value : x) {
      highest = fmaxf(highest, fabsf(value));
      zero += value * 0.0F;
    }
    highest = warp_max(highest);
    zero = warp_sum(zero);
    constexpr float kLeast = 1e-30F;  // all less is zero: its inverse is no number
    const float scale = (highest < kLeast ? 0.0F : highest / kBound) + zero;
    const float inverse = scale > 0 ? kBound / highest : 0.0F;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const float scaled = x[i] * inverse;
      const float bounded = scaled >= -kBound ? fminf(scaled, kBound) : -kBound;
      constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
      codes[i] = static_cast<int8_t>(__float_as_uint(bounded + kMagic) & 0xFFU);
    }
    return scale;
  }
  static __device__ __forceinline__ __nv_bfloat16 value_of(Code code) { return __int2bfloat16_rn(code); }
};

/// A byte each.
struct Integers8 : Integers<127> {
  static constexpr int kBits = 8;
  using Eight = uint2;
  template <int kDim, int kStride>
  using Apart = ApartEights<Integers8, kDim, kStride>;

  static __device__ __forceinline__ Eight eight(const char* vector, int32_t /*d*/, int e) {
    return read_as<uint2>(vector + 8 * e);
  }
  /// Two bytes of a word, which the selector brings into the lower halves of two, as bf16: 128 and the lower seven
  /// bits, less 128, or less 256 where the sign is set. Both are exact.
  static __device__ __forceinline__ uint32_t two(uint32_t word, uint32_t selector) {
    const uint32_t spread = __byte_perm(word, 0, selector);
    return add_bf16((spread & 0x007F007FU) | 0x43004300U, (spread & 0x00800080U) | 0xC300C300U);
  }
  static __device__ __forceinline__ uint4 to_bf16(const Eight& eight) {
    return make_uint4(two(eight.x, 0x4140), two(eight.x, 0x4342), two(eight.y, 0x4140), two(eight.y, 0x4342));
  }
  static __device__ __forceinline__ uint32_t pair(const char* vector, int32_t /*d*/, int i) {
    return two(read_as<uint16_t>(vector + i), 0x4140);
  }
  static __device__ __forceinline__ void keep(char* vector, int32_t d, int i, Code code) {
    if (i < d) vector[i] = static_cast<char>(code);
  }
};

/// Where the part of eight e lies among those of d / 8 that are in order but for their stride: eights that are kStride
/// apart follow one another, so that who has them reads them at once.
template <int kStride>
__device__ __forceinline__ int apart_place(int32_t d, int e) {
  const int eights = d / 8;
  return eights < kStride ? e : e % kStride * (eights / kStride) + e / kStride;
}

/// Bits that eight lanes, whose numbers are an eight, have each.
__device__ __forceinline__ uint32_t of_eight_lanes(uint32_t bits) {
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2) bits |= __shfl_xor_sync(~0u, bits, distance);
  return bits;
}

/// Code + 32 in six bits, of d numbers that are eights. First the lower four bits of all, a word an eight: of pair p of
/// the eight (numbers 2 p and 2 p + 1) at bits 4 p of each half of the word. Then the upper two bits, 16 an eight: at
/// bits 2 p of each byte.
struct Integers6 : Integers<31> {
  static constexpr int kBits = 6;
  static constexpr int kStride = 4;
  struct Eight {
    uint32_t low, high;
  };

  /// high: bytes of the upper bits in the lower halves of two. 128 + code + 32 is a bf16, less 160.
  static __device__ __forceinline__ uint32_t two(uint32_t low, uint32_t high, int p) {
    const uint32_t upper = p < 2 ? high << (4 - 2 * p) : high >> (2 * p - 4);
    return add_bf16(((low >> (4 * p)) & 0x000F000FU) | (upper & 0x00300030U) | 0x43004300U, 0xC320C320U);
  }
  static __device__ __forceinline__ uint4 four_pairs(uint32_t low, uint32_t high) {
    return make_uint4(two(low, high, 0), two(low, high, 1), two(low, high, 2), two(low, high, 3));
  }
  static __device__ __forceinline__ Eight eight(const char* vector, int32_t d, int e) {
    const int place = apart_place<kStride>(d, e);
    return {read_as<uint32_t>(vector + 4 * place), read_as<uint16_t>(vector + d / 2 + 2 * place)};
  }
  static __device__ __forceinline__ uint4 to_bf16(const Eight& eight) {
    return four_pairs(eight.low, __byte_perm(eight.high, 0, 0x4140));
  }
  static __device__ __forceinline__ uint32_t pair(const char* vector, int32_t d, int i) {
    const Eight of_pair = eight(vector, d, i / 8);
    return two(of_pair.low, __byte_perm(of_pair.high, 0, 0x4140), i % 8 / 2);
  }

  /// Of 128 numbers four words and two of upper bits, of 64 half as many.
  template <int kDim, int kApart>
  struct Apart {
    static_assert(kApart == kStride && (kDim == 64 || kDim % 128 == 0));
    static constexpr int kCount = kPartDim<kDim> / 8 / kStride, kParts = kDim / kPartDim<kDim>;
    uint32_t low[kCount] = {}, high[kCount / 2] = {};
    __device__ __forceinline__ void load(const char* vector, int e, int part) {
      const char* const lows = vector + 4 * kCount * (kParts * e + part);
      const char* const highs = vector + kDim / 2 + 2 * kCount * (kParts * e + part);
      if constexpr (kCount == 4) {
        const auto four = read_as<uint4>(lows);
        const auto both = read_as<uint2>(highs);
        low[0] = four.x, low[1] = four.y, low[2] = four.z, low[3] = four.w;
        high[0] = both.x, high[1] = both.y;
      } else {
        const auto two_words = read_as<uint2>(lows);
        low[0] = two_words.x, low[1] = two_words.y;
        high[0] = read_as<uint32_t>(highs);
      }
    }
    __device__ __forceinline__ uint4 to_bf16(int i) const {
      return four_pairs(low[i], __byte_perm(high[i / 2], 0, i % 2 == 0 ? 0x4140 : 0x4342));
    }
  };

  static __device__ __forceinline__ void keep(char* vector, int32_t d, int i, Code code) {
    const auto biased = static_cast<uint32_t>(code + 32);
    const int p = i % 8 / 2, half = i % 2, place = apart_place<kStride>(d, i / 8);
    const uint32_t low = of_eight_lanes((biased & 15U) << (4 * p + 16 * half));
    const uint32_t high = of_eight_lanes((biased >> 4) << (2 * p + 8 * half));
    if (i >= d || i % 8 != 0) return;
    write_as(vector + 4 * place, low);
    write_as(vector + d / 2 + 2 * place, static_cast<uint16_t>(high));
  }
};

/// The 16 levels of TurboQuantCodec, which are eight and their negatives, rounded to bf16; scale = the root of the mean
/// square. Of d numbers that are eights, a word each: which of the eight number i is at bits 4 i, and its sign at the
/// bit that is left of another four, so that a shift brings the signs of a pair to where bf16 has them.
struct Levels4 {
  static constexpr int kBits = 4;
  static constexpr int kStride = 8;
  static constexpr int kLevels = 8;
  using Eight = uint32_t;

  static __host__ __device__ constexpr float level(int i) {
    constexpr float kPositive[kLevels] = {0.128395030F, 0.388048299F, 0.656759119F, 0.942340456F,
                                          1.256231197F, 1.618046386F, 2.069017227F, 2.732589571F};
    return kPositive[i];
  }
  /// As bf16, to the nearest; none of them is halfway.
  static __host__ __device__ constexpr uint32_t bits_of(float x) {
    uint32_t exponent = 127;
    for (; x >= 2; x /= 2) ++exponent;
    for (; x < 1; x *= 2) --exponent;
    return (exponent << 7) + static_cast<uint32_t>((x - 1) * 128 + 0.5F);
  }
  /// The lower or upper bytes of four levels.
  static __host__ __device__ constexpr uint32_t bytes_of(int first, int shift) {
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) bytes |= ((bits_of(level(first + i)) >> shift) & 0xFFU) << (8 * i);
    return bytes;
  }
  /// Levels of the first four of a word, as bytes: lower ones, upper ones.
  static __device__ __forceinline__ uint2 levels_of(uint32_t which) {
    constexpr uint32_t kLower[2] = {bytes_of(0, 0), bytes_of(4, 0)}, kUpper[2] = {bytes_of(0, 8), bytes_of(4, 8)};
    return make_uint2(__byte_perm(kLower[0], kLower[1], which), __byte_perm(kUpper[0], kUpper[1], which));
  }
  static __host__ __device__ constexpr int sign_bit(int i) { return 15 - i / 2 * 4 + i % 2 * 16; }

  static __device__ __forceinline__ Eight eight(const char* vector, int32_t d, int e) {
    return read_as<uint32_t>(vector + 4 * apart_place<kStride>(d, e));
  }
  static __device__ __forceinline__ uint4 to_bf16(Eight word) {
    const uint32_t which = word & 0x77777777U;
    const uint2 first = levels_of(which & 0x7777U), last = levels_of(which >> 16);
    return make_uint4(__byte_perm(first.x, first.y, 0x5140) ^ (word & 0x80008000U),
                      __byte_perm(first.x, first.y, 0x7362) ^ ((word << 4) & 0x80008000U),
                      __byte_perm(last.x, last.y, 0x5140) ^ ((word << 8) & 0x80008000U),
                      __byte_perm(last.x, last.y, 0x7362) ^ ((word << 12) & 0x80008000U));
  }
  static __device__ __forceinline__ uint32_t pair(const char* vector, int32_t d, int i) {
    const uint32_t word = eight(vector, d, i / 8), p = static_cast<uint32_t>(i % 8 / 2);
    const uint2 levels = levels_of((word >> (8 * p)) & 0x77U);
    return __byte_perm(levels.x, levels.y, 0x5140) ^ ((word << (4 * p)) & 0x80008000U);
  }

  /// Of 128 numbers two words, of 64 one.
  template <int kDim, int kApart>
  struct Apart {
    static_assert(kApart == kStride && (kDim == 64 || kDim % 128 == 0));
    static constexpr int kCount = kPartDim<kDim> / 8 / kStride, kParts = kDim / kPartDim<kDim>;
    uint32_t words[kCount] = {};
    __device__ __forceinline__ void load(const char* vector, int e, int part) {
      if constexpr (kCount == 2) {
        const auto both = read_as<uint2>(vector + 8 * (kParts * e + part));
        words[0] = both.x, words[1] = both.y;
      } else {
        words[0] = read_as<uint32_t>(vector + 4 * e);
      }
    }
    __device__ __forceinline__ uint4 to_bf16(int i) const { return Levels4::to_bf16(words[i]); }
  };

  using Code = int32_t;  ///< of the codec: 8 and on are the levels, 7 and down their negatives
  template <int kMine>
  static __device__ __forceinline__ float choose(int32_t d, const float (&x)[kMine], Code (&codes)[kMine]) {
    double squares = 0;
#pragma unroll
    for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(~0u, squares, distance);
    const auto scale = static_cast<float>(sqrt(squares / d));
    const float inverse = scale > 0 ? 1.0F / scale : 0.0F;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const float scaled = x[i] * inverse;
      codes[i] = scaled > 0.0F ? 1 : 0;
#pragma unroll
      for (int border = 0; border + 1 < kLevels; ++border) {
        const float between = (level(border) + level(border + 1)) / 2;
        codes[i] += (scaled > between ? 1 : 0) + (scaled > -between ? 1 : 0);
      }
    }
    return scale;
  }
  static __device__ __forceinline__ void keep(char* vector, int32_t d, int i, Code code) {
    const uint32_t which = code < kLevels ? kLevels - 1 - code : code - kLevels, sign = code < kLevels ? 1U : 0U;
    const uint32_t word = of_eight_lanes(which << (4 * (i % 8)) | sign << sign_bit(i % 8));
    if (i < d && i % 8 == 0) write_as(vector + 4 * apart_place<kStride>(d, i / 8), word);
  }
  static __device__ __forceinline__ __nv_bfloat16 value_of(Code code) {
    const uint2 level = levels_of(static_cast<uint32_t>(code < kLevels ? kLevels - 1 - code : code - kLevels));
    const uint32_t bits = (level.x & 0xFFU) | (level.y & 0xFFU) << 8 | (code < kLevels ? 0x8000U : 0U);
    return __ushort_as_bfloat16(static_cast<uint16_t>(bits));
  }
};

}  // namespace ashlar::cuda
