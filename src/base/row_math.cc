#include "base/row_math.h"

#include <algorithm>
#include <cstring>
#include <limits>

// Vector extensions instead of intrinsics: the compiler lowers eight lanes to what each clone has. No clone may
// contract a product and a sum (-ffp-contract=off), so all give the same bits.
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
#define ASHLAR_CLONES  // the dispatcher of the clones runs before a sanitizer is ready
#else
#define ASHLAR_CLONES __attribute__((target_clones("avx2", "default")))
#endif

namespace ashlar {
namespace {

constexpr int32_t kLanes = 8;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));

// exp(x) = 2^whole * 2^part with |part| <= 1/2, of t = x log2(e); below 2^-100 counts as nothing.
// In place: a vector by value would cross an ABI that depends on the clone.
__attribute__((always_inline)) inline void exp2_of(Floats& t) {
  const Ints counts = t > -100.0F;
  t = t > -100.0F ? t : -100.0F - Floats{};
  const Floats shifted = t + 12582912.0F;  // 1.5 * 2^23: rounds to an integer, which is then in the low bits
  const Floats part = t - (shifted - 12582912.0F);
  Floats p = part * 1.5403530e-4F + 1.3333558e-3F;
  p = p * part + 9.6181291e-3F;
  p = p * part + 5.5504109e-2F;
  p = p * part + 2.4022651e-1F;
  p = p * part + 6.9314718e-1F;
  p = p * part + 1.0F;
  Ints bits;
  Ints whole;
  std::memcpy(&bits, &p, sizeof(bits));
  std::memcpy(&whole, &shifted, sizeof(whole));
  bits = (bits + (whole << 23)) & counts;
  std::memcpy(&t, &bits, sizeof(t));
}

// Of a size that the compiler knows: a call of memcpy for every vector would take ten times as long as its sums.
__attribute__((always_inline)) inline void load(Floats& x, const float* values) { std::memcpy(&x, values, sizeof(x)); }

// The last vector of a row, filled up with `rest`.
__attribute__((always_inline)) inline void load_tail(Floats& x, const float* values, int32_t valid, float rest) {
  for (int32_t lane = 0; lane < kLanes; ++lane) x[lane] = lane < valid ? values[lane] : rest;
}

// Where the largest value of each lane is, the first of equals.
struct LaneBest {
  Floats value;
  Ints at;
};

__attribute__((always_inline)) inline void offer(LaneBest& best, const float* values, int32_t first) {
  Floats x;
  load(x, values + first);
  const Ints higher = x > best.value;
  best.value = higher ? x : best.value;
  best.at = higher ? first - Ints{} : best.at;
}

// Hands the values over in vectors, the last one filled up with minus infinity.
template <class Add>
__attribute__((always_inline)) inline void for_vectors(const float* values, int32_t n, const Add& add) {
  Floats x;
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    load(x, values + i);
    add(x);
  }
  if (i == n) return;
  load_tail(x, values + i, n - i, -std::numeric_limits<float>::infinity());
  add(x);
}

__attribute__((always_inline)) inline double sum_of(const Floats& sums) {
  double total = 0;
  for (int32_t lane = 0; lane < kLanes; ++lane) total += sums[lane];
  return total;
}

}  // namespace

// Values are looked at one by one only where a block's largest one beats the worst of those found so far. That one is
// known to be no less than the k-th largest of all blocks' largest ones, so few blocks are.
ASHLAR_CLONES int32_t top_k(const float* values, int32_t n, int32_t k, int32_t* indices) {
  constexpr int32_t kBlock = 8 * kLanes;
  constexpr int32_t kMostBlocks = 1024;  // at a time
  const float lowest = -std::numeric_limits<float>::infinity();
  float bar = lowest;
  int32_t found = 0;
  if (k <= 0) return 0;
  const auto insert = [&](int32_t i) {
    if (!(values[i] > bar)) return;
    int32_t at = found < k ? found++ : k - 1;
    for (; at > 0 && values[indices[at - 1]] < values[i]; --at) indices[at] = indices[at - 1];
    indices[at] = i;
    if (found == k) bar = values[indices[k - 1]];
  };
  float highest[kMostBlocks];
  int32_t first = 0;
  while (first + kBlock <= n) {
    const int32_t blocks = std::min((n - first) / kBlock, kMostBlocks);
    for (int32_t b = 0; b < blocks; ++b) {
      Floats most = lowest - Floats{};
      for (int32_t i = 0; i < kBlock; i += kLanes) {
        Floats x;
        load(x, values + first + b * kBlock + i);
        most = x > most ? x : most;
      }
      highest[b] = lowest;
      for (int32_t lane = 0; lane < kLanes; ++lane) highest[b] = most[lane] > highest[b] ? most[lane] : highest[b];
    }
    const bool bounded = found == 0 && top_k(highest, blocks, k, indices) == k;
    const float least = bounded ? highest[indices[k - 1]] : lowest;
    for (int32_t b = 0; b < blocks; ++b) {
      if (!(highest[b] > bar) || highest[b] < least) continue;
      for (int32_t i = first + b * kBlock; i < first + (b + 1) * kBlock; ++i) {
        if (values[i] >= least) insert(i);
      }
    }
    first += blocks * kBlock;
  }
  for (; first < n; ++first) insert(first);
  return found;
}

ASHLAR_CLONES int32_t argmax(const float* values, int32_t n) {
  const float lowest = -std::numeric_limits<float>::infinity();
  LaneBest even = {lowest - Floats{}, Ints{}};
  LaneBest odd = even;
  int32_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    offer(even, values, i);
    offer(odd, values, i + kLanes);
  }
  float highest = lowest;
  int32_t found = n;
  const auto consider = [&](float value, int32_t at) {
    if (value > highest || (value == highest && at < found && value > lowest)) {
      highest = value;
      found = at;
    }
  };
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    consider(even.value[lane], even.at[lane] + lane);
    consider(odd.value[lane], odd.at[lane] + lane);
  }
  for (; i < n; ++i) consider(values[i], i);
  if (found < n) return found;
  for (i = 0; i < n; ++i) {  // nothing above minus infinity
    if (values[i] == lowest) return i;
  }
  return 0;
}

ASHLAR_CLONES double exp_sum(const float* values, int32_t n, float highest, float inverse_temperature) {
  const float scale = inverse_temperature * 1.44269504F;
  Floats sums = {};
  for_vectors(
      values, n, [&](Floats & x) __attribute__((always_inline)) {
        x = (x - highest) * scale;
        exp2_of(x);
        sums += x;
      });
  return sum_of(sums);
}

// 2^t = 2^whole * (1 + part): 0 to 6 % too much, 4 % on the whole, nothing where t is whole. Read off the bits of a
// sum.
ASHLAR_CLONES double rough_exp_sum(const float* values, int32_t n, float highest) {
  constexpr float kOne = 8388608.0F;  // of an exponent, in bits
  constexpr double kTooMuch = 1.04;
  Floats sums = {};
  for_vectors(
      values, n, [&](Floats & x) __attribute__((always_inline)) {
        x = (x - highest) * (1.44269504F * kOne) + 127.0F * kOne;
        x = x > 0.0F ? x : Floats{};
        const Ints bits = __builtin_convertvector(x, Ints);
        std::memcpy(&x, &bits, sizeof(x));
        sums += x;
      });
  return 1.0 + std::max(sum_of(sums) - 1.0, 0.0) / kTooMuch;
}

ASHLAR_CLONES ExpMoments exp_moments(const float* values, int32_t n, float highest) {
  Floats sums = {};
  Floats weighted = {};
  for_vectors(
      values, n, [&](Floats & x) __attribute__((always_inline)) {
        x = x - highest;
        const Floats below = x > -80.0F ? x : -80.0F - Floats{};  // minus infinity times nothing is nothing
        x = below * 1.44269504F;
        exp2_of(x);
        sums += x;
        weighted += x * below;
      });
  return {sum_of(sums), sum_of(weighted)};
}

}  // namespace ashlar
