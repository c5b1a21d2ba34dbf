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

#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

constexpr int32_t kTogether = 4;  // outputs: the chains of one would wait for themselves

// dot of `here` rows, at most kTogether. The same source a second time for AVX2, one of which is chosen when the
// program is loaded (sanitizers cannot run so early). The compiler makes vectors of the chains only at O3.
__attribute__((target_clones("avx2", "default"), optimize("O3"))) void few_dots(const float* x, const float* rows,
                                                                                int32_t n, int64_t stride, int32_t here,
                                                                                float* out) {
  const float* row[kTogether];
  for (int32_t j = 0; j < kTogether; ++j) row[j] = rows + (j < here ? j : 0) * stride;
  double sums[kTogether][4] = {};
  const int32_t whole = n - n % 4;
  for (int32_t i = 0; i < whole; i += 4) {
    for (int32_t j = 0; j < kTogether; ++j) {
      for (int32_t c = 0; c < 4; ++c) sums[j][c] += static_cast<double>(x[i + c]) * row[j][i + c];
    }
  }
  for (int32_t j = 0; j < kTogether; ++j) {  // a constant bound, so that sums lie in registers
    if (j >= here) return;
    double chain0 = sums[j][0];
    for (int32_t i = whole; i < n; ++i) chain0 += static_cast<double>(x[i]) * row[j][i];
    out[j] = static_cast<float>((chain0 + sums[j][1]) + (sums[j][2] + sums[j][3]));
  }
}

}  // namespace

void dots(const float* x, const float* rows, int32_t n, int64_t stride, int32_t count, float* out) {
  for (int32_t j = 0; j < count; j += kTogether) {
    few_dots(x, rows + j * stride, n, stride, count - j < kTogether ? count - j : kTogether, out + j);
  }
}

#else

void dots(const float* x, const float* rows, int32_t n, int64_t stride, int32_t count, float* out) {
  for (int32_t j = 0; j < count; ++j) out[j] = dot(x, rows + j * stride, n);
}

#endif

}  // namespace ashlar::ref
