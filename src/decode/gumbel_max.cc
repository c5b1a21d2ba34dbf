#include "decode/gumbel_max.h"

#include <cmath>
#include <limits>

#include "base/row_math.h"
#include "decode/noise.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ashlar {
namespace {

constexpr int32_t kWords = static_cast<int32_t>(std::tuple_size_v<PhiloxBlock>);

class Best {
 public:
  explicit Best(int32_t id) : id_(id) {}

  void offer(int32_t id, double tempered, uint32_t word) {
    if (!(tempered + noise::gumbel_bound(word) > score_)) return;
    const double score = tempered + noise::gumbel(word);
    if (score > score_ || (score == score_ && id < id_)) {
      score_ = score;
      id_ = id;
    }
  }
  int32_t id() const { return id_; }
  double score() const { return score_; }

 private:
  double score_ = -std::numeric_limits<double>::infinity();
  int32_t id_;
};

void offer_range(Best& best, const float* logits, int32_t first, int32_t last, double inverse, Draw draw) {
  PhiloxBlock words{};
  for (int32_t i = first; i < last; ++i) {
    if (i == first || i % kWords == 0) {
      words = noise::block(draw.seed, draw.position, static_cast<uint32_t>(i / kWords), noise::Domain::kGumbel);
    }
    best.offer(i, logits[i] * inverse, words[i % kWords]);
  }
}

#if defined(__x86_64__)

constexpr int32_t kTokens = 64;  // at a time
constexpr int32_t kLanes = 8;
constexpr int32_t kVectors = kTokens / kWords / 4;

// The noise words of tokens [4 first_block, 4 first_block + 64): philox4x32() of 16 counters, four to a vector of
// 64-bit lanes, whose low halves hold the words.
__attribute__((target("avx2"))) void gumbel_words(Draw draw, uint32_t first_block, uint32_t* words) {
  const __m256i low = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (int32_t v = 0; v < kVectors; ++v) {
    c0[v] = _mm256_add_epi64(_mm256_set1_epi64x(first_block + 4 * v), _mm256_set_epi64x(3, 2, 1, 0));
    c1[v] = _mm256_set1_epi64x(static_cast<uint32_t>(draw.position));
    c2[v] = _mm256_set1_epi64x(static_cast<uint32_t>(noise::Domain::kGumbel));
    c3[v] = _mm256_setzero_si256();
  }
  auto key0 = static_cast<uint32_t>(draw.seed);
  auto key1 = static_cast<uint32_t>(draw.seed >> 32);
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

// Bit i: token i of 64 might score above `bar`. The bound is that of noise::gumbel_bound(), at least one log 2 higher:
// (32 - exponent of half the complement) log 2 for an exponent that counts from 0 and may be one too high by rounding.
// That also covers what floats lose here, as long as the tempered logits near the bar are below 2^20.
__attribute__((target("avx2"))) uint64_t possible(const float* logits, const uint32_t* words, float inverse,
                                                  float bar) {
  constexpr float kLog2 = 0.693148F;  // above log 2
  uint64_t mask = 0;
  for (int32_t first = 0; first < kTokens; first += kLanes) {
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

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

#endif

}  // namespace

int32_t gumbel_max_scalar(const float* logits, int32_t vocab, double inverse, Draw draw) {
  Best best(0);
  offer_range(best, logits, 0, vocab, inverse, draw);
  return best.id();
}

int32_t gumbel_max(const float* logits, int32_t vocab, double inverse, Draw draw) {
#if defined(__x86_64__)
  // The most likely token comes first: its score keeps most others from a closer look.
  const int32_t likely = argmax(logits, vocab);
  if (has_avx2() && std::abs(logits[likely] * inverse) < 0x1p20 && inverse < 0x1p20) {
    Best best(0);
    offer_range(best, logits, likely, likely + 1, inverse, draw);
    uint32_t words[kTokens];
    int32_t first = 0;
    for (; first + kTokens <= vocab; first += kTokens) {
      gumbel_words(draw, static_cast<uint32_t>(first / kWords), words);
      uint64_t left = possible(logits + first, words, static_cast<float>(inverse), static_cast<float>(best.score()));
      for (; left != 0; left &= left - 1) {
        const int32_t i = __builtin_ctzll(left);
        best.offer(first + i, logits[first + i] * inverse, words[i]);
      }
    }
    offer_range(best, logits, first, vocab, inverse, draw);
    return best.id();
  }
#endif
  return gumbel_max_scalar(logits, vocab, inverse, draw);
}

int32_t gumbel_max_mapped(const float* logits, int32_t n, double inverse, Draw draw, const int32_t* id_map) {
  Best best(id_map[0]);
  PhiloxBlock words{};
  int32_t block = -1;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t id = id_map[i];
    if (id / kWords != block) {
      block = id / kWords;
      words = noise::block(draw.seed, draw.position, static_cast<uint32_t>(block), noise::Domain::kGumbel);
    }
    best.offer(id, logits[i] * inverse, words[id % kWords]);
  }
  return best.id();
}

}  // namespace ashlar
