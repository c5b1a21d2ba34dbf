// SPDX-License-Identifier: Apache-2.0
// Most of what the reference device computes. Each sum has four chains, in an order that neither the other outputs nor
// the machine change, so its bits are the same everywhere.

#include "device/ref/ref_kernels.h"

namespace ashlar::ref {

float dot(const float* a, const float* b, int32_t n) {
  double chains[4] = {};
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int32_t c = 0; c < 4; ++c) chains[c] += static_cast<double>(a[i + c]) * b[i + c];
  }
  for (; i < n; ++i) chains[0] += static_cast<double>(a[i]) * b[i];
  return static_cast<float>((chains[0] + chains[1]) + (chains[2] + chains[3]));
}

// The same source a second time for AVX2, one of which is chosen when the program is loaded (sanitizers cannot run so
// early).
#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASHLAR_WITH_AVX2 __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define ASHLAR_WITH_AVX2
#endif

namespace {

/// The four chains of one sum, side by side, at any address of a double.
using Chains = double __attribute__((vector_size(32), aligned(8), may_alias));

// Of this file alone: what is chosen at loading is no symbol that other objects see.
ASHLAR_WITH_AVX2 void widen_all(const float* from, int64_t n, double* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

ASHLAR_WITH_AVX2 void add_chains(const double* x, const double* rows, int32_t n, float* out) {
  Chains sums[kTogether] = {};
  const int32_t whole = n - n % 4;
  for (int32_t i = 0; i < whole; i += 4) {
    const Chains& of_x = *reinterpret_cast<const Chains*>(x + i);
#pragma GCC unroll 4  // so that the sums lie in registers
    for (int32_t j = 0; j < kTogether; ++j) {
      sums[j] += of_x * *reinterpret_cast<const Chains*>(rows + int64_t{j} * n + i);
    }
  }
  for (int32_t j = 0; j < kTogether; ++j) {
    double chain0 = sums[j][0];
    for (int32_t i = whole; i < n; ++i) chain0 += x[i] * rows[int64_t{j} * n + i];
    out[j] = static_cast<float>((chain0 + sums[j][1]) + (sums[j][2] + sums[j][3]));
  }
}

}  // namespace

void widen(const float* from, int64_t n, double* to) { widen_all(from, n, to); }

void few_dots(const double* x, const double* rows, int32_t n, float* out) { add_chains(x, rows, n, out); }

}  // namespace ashlar::ref
