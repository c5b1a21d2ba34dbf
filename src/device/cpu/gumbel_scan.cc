// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/gumbel_scan.h"

#include <immintrin.h>

#include <algorithm>
#include <tuple>

namespace ashlar {
namespace {

constexpr int32_t kWords = static_cast<int32_t>(std::tuple_size_v<PhiloxBlock>);
constexpr int32_t kLanes = 8;
constexpr int32_t kVectors = kScanned / kWords / 4;

// philox4x32() of 16 counters, four to a vector of 64-bit lanes, whose low halves hold the words.
__attribute__((target("avx2"))) void words_avx2(PhiloxBlock counter, uint64_t key, uint32_t* words) {
  const __m256i low = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (int32_t v = 0; v < kVectors; ++v) {
    c0[v] = _mm256_add_epi64(_mm256_set1_epi64x(counter[0] + 4 * v), _mm256_set_epi64x(3, 2, 1, 0));
    c1[v] = _mm256_set1_epi64x(counter[1]);
    c2[v] = _mm256_set1_epi64x(counter[2]);
    c3[v] = _mm256_set1_epi64x(counter[3]);
  }
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i keys0 = _mm256_set1_epi64x(key0);
    const __m256i keys1 = _mm256_set1_epi64x(key1);
    for (int32_t v = 0; v < kVectors; ++v) {
      const __m256i product0 = _mm256_mul_epu32(c0[v], multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c2[v], multiplier1);
      c0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1[v]), keys0);
      c2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3[v]), keys1);
      c1[v] = _mm256_and_si256(product1, low);
      c3[v] = _mm256_and_si256(product0, low);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int32_t v = 0; v < kVectors; ++v) {
    const __m256i first = _mm256_or_si256(c0[v], _mm256_slli_epi64(c1[v], 32));
    const __m256i second = _mm256_or_si256(c2[v], _mm256_slli_epi64(c3[v], 32));
    const __m256i even = _mm256_unpacklo_epi64(first, second);  // counters 0 and 2
    const __m256i odd = _mm256_unpackhi_epi64(first, second);   // counters 1 and 3
    auto* out = reinterpret_cast<__m256i*>(words + v * 4 * kWords);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

// Bit i: token i of 64 might score above `bar`. The noise of a word with n leading ones is below (n + 1) log 2; the
// bound here is two log 2 above that, or one where the conversion rounds up to the next exponent. That covers what
// floats lose, too, for logits as the header asks for.
__attribute__((target("avx2"))) uint64_t possible_avx2(const float* logits, const uint32_t* words, float inverse,
                                                       float bar) {
  constexpr float kLog2 = 0.693148F;  // above log 2
  uint64_t mask = 0;
  for (int32_t first = 0; first < kScanned; first += kLanes) {
    const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + first));
    const __m256i half = _mm256_srli_epi32(_mm256_xor_si256(word, _mm256_set1_epi32(-1)), 1);
    const __m256 as_float = _mm256_cvtepi32_ps(_mm256_or_si256(half, _mm256_set1_epi32(1)));
    const __m256i exponent = _mm256_srli_epi32(_mm256_castps_si256(as_float), 23);  // biased by 127
    const __m256 leading = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_set1_epi32(127 + 33), exponent));
    const __m256 bound = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(logits + first), _mm256_set1_ps(inverse)),
                                       _mm256_mul_ps(leading, _mm256_set1_ps(kLog2)));
    const auto above = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(bound, _mm256_set1_ps(bar), _CMP_GT_OQ)));
    mask |= uint64_t{above} << first;
  }
  return mask;
}

}  // namespace

uint64_t scan_gumbel(const float* logits, PhiloxBlock counter, uint64_t key, float inverse, float bar,
                     uint32_t* words) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) {
    words_avx2(counter, key, words);
    return possible_avx2(logits, words, inverse, bar);
  }
  for (int32_t i = 0; i < kScanned; i += kWords, ++counter[0]) {
    const PhiloxBlock block = philox4x32(counter, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
    std::copy(block.begin(), block.end(), words + i);
  }
  return ~uint64_t{0};
}

}  // namespace ashlar
