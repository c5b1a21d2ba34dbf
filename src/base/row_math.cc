#include "base/row_math.h"

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

}  // namespace

ASHLAR_CLONES int32_t argmax(const float* values, int32_t n) {
  float highest = -std::numeric_limits<float>::infinity();
  int32_t i = 0;
  if (n >= 2 * kLanes) {
    Floats best0 = highest - Floats{};
    Floats best1 = best0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      Floats a;
      Floats b;
      std::memcpy(&a, values + i, sizeof(a));
      std::memcpy(&b, values + i + kLanes, sizeof(b));
      best0 = a > best0 ? a : best0;
      best1 = b > best1 ? b : best1;
    }
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      highest = best0[lane] > highest ? best0[lane] : highest;
      highest = best1[lane] > highest ? best1[lane] : highest;
    }
  }
  for (; i < n; ++i) highest = values[i] > highest ? values[i] : highest;
  for (i = 0; i < n; ++i) {
    if (values[i] == highest) return i;
  }
  return 0;
}

ASHLAR_CLONES double exp_sum(const float* values, int32_t n, float highest, float inverse_temperature) {
  Floats sums = {};
  for (int32_t i = 0; i < n; i += kLanes) {
    Floats x = highest - Floats{};
    const int32_t valid = n - i < kLanes ? n - i : kLanes;
    std::memcpy(&x, values + i, sizeof(float) * valid);
    Floats p = (x - highest) * (inverse_temperature * 1.44269504F);
    exp2_of(p);
    for (int32_t lane = valid; lane < kLanes; ++lane) p[lane] = 0;
    sums += p;
  }
  double total = 0;
  for (int32_t lane = 0; lane < kLanes; ++lane) total += sums[lane];
  return total;
}

ASHLAR_CLONES ExpMoments exp_moments(const float* values, int32_t n, float highest) {
  Floats sums = {};
  Floats weighted = {};
  for (int32_t i = 0; i < n; i += kLanes) {
    Floats x = highest - Floats{};
    const int32_t valid = n - i < kLanes ? n - i : kLanes;
    std::memcpy(&x, values + i, sizeof(float) * valid);
    Floats below = x - highest;
    below = below > -80.0F ? below : -80.0F - Floats{};  // minus infinity times nothing is nothing
    Floats p = below * 1.44269504F;
    exp2_of(p);
    for (int32_t lane = valid; lane < kLanes; ++lane) p[lane] = 0;
    sums += p;
    weighted += p * below;
  }
  ExpMoments moments;
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    moments.sum += sums[lane];
    moments.weighted += weighted[lane];
  }
  return moments;
}

}  // namespace ashlar
