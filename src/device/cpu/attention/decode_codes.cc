// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/attention/decode_codes.h"

#include <cstring>

#include "device/rows.h"

// Written once, in vectors of eight that the compiler maps to what the machine has, and compiled twice.
#define ASHLAR_INLINE inline __attribute__((always_inline))

namespace ashlar::cpu {
namespace {

constexpr int32_t kLanes = 8;
constexpr int32_t kBlock = 16;  // dimensions of a block of values
static_assert(kPageTokens == 2 * kLanes && kBlock == 2 * kLanes);

using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));
using Bits = uint32_t __attribute__((vector_size(32)));
using Bytes = uint8_t __attribute__((vector_size(8)));
using SignedBytes = int8_t __attribute__((vector_size(8)));
using Shorts = int16_t __attribute__((vector_size(16)));

template <class Vector>
ASHLAR_INLINE void load(const void* from, Vector& to) {
  std::memcpy(&to, from, sizeof(Vector));
}

ASHLAR_INLINE void nearest_bf16(const Floats& x, Bits& bits) {
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
}

/// Pairs (low, high) of bf16.
ASHLAR_INLINE void store_pairs(const Floats& low, const Floats& high, uint16_t* to) {
  Bits a, b;
  nearest_bf16(low, a);
  nearest_bf16(high, b);
  const Bits pairs = a | (b << 16);
  std::memcpy(to, &pairs, sizeof(pairs));
}

ASHLAR_INLINE void widen(const uint8_t* bytes, Ints& out) {
  Bytes narrow;
  load(bytes, narrow);
  out = __builtin_convertvector(__builtin_convertvector(narrow, Shorts), Ints);
}

/// The values of codes of 4 bits, one of the two halves of each byte.
struct Levels {
  Floats low, high;
  ASHLAR_INLINE explicit Levels(const float* levels) {
    load(levels, low);
    load(levels + kLanes, high);
  }
  ASHLAR_INLINE void of(const uint8_t* bytes, Floats& lower_halves, Floats& upper_halves) const {
    Ints wide;
    widen(bytes, wide);
    pick(wide & 15, lower_halves);
    pick(wide >> 4, upper_halves);
  }
  ASHLAR_INLINE void pick(const Ints& codes, Floats& out) const {
#ifdef __clang__  // has no shuffle by variables
    for (int32_t i = 0; i < kLanes; ++i) out[i] = codes[i] < kLanes ? low[codes[i]] : high[codes[i] - kLanes];
#else
    out = __builtin_shuffle(low, high, codes);
#endif
  }
};

ASHLAR_INLINE void integers(const uint8_t* bytes, Floats& out) {
  SignedBytes narrow;
  load(bytes, narrow);
  out = __builtin_convertvector(__builtin_convertvector(narrow, Shorts), Floats);
}

ASHLAR_INLINE void keys(const CodedTokens& from, int32_t bits, uint16_t* to) {
  Floats scales[2];
  load(from.scales, scales[0]);
  load(from.scales + kLanes, scales[1]);
  const int32_t vectors = from.head_dim / 2 * (kPageTokens / kLanes);  // of pairs of dimensions
  if (bits == 6) {
    const uint8_t* upper = from.codes + vectors * kLanes;
    for (int32_t v = 0; v < vectors; ++v) {
      Ints lower_bits, upper_bits;
      widen(from.codes + v * kLanes, lower_bits);
      widen(upper + (v / 4 * 2 + v % 2) * kLanes, upper_bits);
      upper_bits >>= v / 2 % 2 * 4;  // two pairs of dimensions share these bytes
      const Ints low = ((lower_bits & 15) | (upper_bits & 3) << 4) - 32;
      const Ints high = (lower_bits >> 4 | (upper_bits & 12) << 2) - 32;
      store_pairs(__builtin_convertvector(low, Floats) * scales[v % 2],
                  __builtin_convertvector(high, Floats) * scales[v % 2], to + v * (2 * kLanes));
    }
    return;
  }
  for (int32_t v = 0; v < vectors; ++v) {
    Shorts pairs;
    load(from.codes + v * (2 * kLanes), pairs);
    const Shorts low = (pairs << 8) >> 8;
    const Shorts high = pairs >> 8;
    store_pairs(__builtin_convertvector(low, Floats) * scales[v % 2],
                __builtin_convertvector(high, Floats) * scales[v % 2], to + v * (2 * kLanes));
  }
}

ASHLAR_INLINE void values(const CodedTokens& from, int32_t bits, uint16_t* to) {
  const int32_t d = from.head_dim;
  const int64_t row = int64_t{d} * bits / 8;
  for (int32_t pair = 0; pair < kPageTokens / 2; ++pair) {
    const uint8_t* one = from.codes + 2 * pair * row;
    const uint8_t* other = one + row;
    const float scale = from.scales[2 * pair];
    const float other_scale = from.scales[2 * pair + 1];
    uint16_t* out = to + pair * (2 * kBlock);
    if (bits == 4) {
      const Levels levels(from.levels);
      for (int32_t c = 0; c < d; c += kBlock, out += kBlock * kPageTokens) {
        Floats a[2], b[2];
        levels.of(one + c / 2, a[0], a[1]);
        levels.of(other + c / 2, b[0], b[1]);
        store_pairs(a[0] * scale, b[0] * other_scale, out);
        store_pairs(a[1] * scale, b[1] * other_scale, out + 2 * kLanes);
      }
      continue;
    }
    for (int32_t c = 0; c < d; c += kBlock, out += kBlock * kPageTokens) {
      uint8_t ends[2][kBlock] = {};  // a last block may be shorter
      const bool whole = c + kBlock <= d;
      if (!whole) {
        std::memcpy(ends[0], one + c, static_cast<size_t>(d - c));
        std::memcpy(ends[1], other + c, static_cast<size_t>(d - c));
      }
      const uint8_t* a = whole ? one + c : ends[0];
      const uint8_t* b = whole ? other + c : ends[1];
      for (int32_t half = 0; half < 2; ++half) {
        Floats low, high;
        integers(a + half * kLanes, low);
        integers(b + half * kLanes, high);
        store_pairs(low * scale, high * other_scale, out + half * (2 * kLanes));
      }
    }
  }
}

__attribute__((target("avx2"))) void keys_avx2(const CodedTokens& from, int32_t bits, uint16_t* to) {
  keys(from, bits, to);
}
__attribute__((target("avx2"))) void values_avx2(const CodedTokens& from, int32_t bits, uint16_t* to) {
  values(from, bits, to);
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

}  // namespace

void decode_keys(const CodedTokens& from, int32_t bits, uint16_t* to) {
  has_avx2() ? keys_avx2(from, bits, to) : keys(from, bits, to);
}

void decode_values(const CodedTokens& from, int32_t bits, uint16_t* to) {
  has_avx2() ? values_avx2(from, bits, to) : values(from, bits, to);
}

}  // namespace ashlar::cpu
