// SPDX-License-Identifier: Apache-2.0
// Convolutions and edges of drafters' heads: little next to the products around them, so one plain form serves every
// instruction set, with the same bits.

#include <algorithm>

#include "base/check.h"
#include "device/cpu/cpu_ops.h"

namespace ashlar::cpu {
namespace {

constexpr int32_t kLanes = 16;

// sums[i] += (base[i] + own) * from[i]. Nearly always all lanes, which a compiler makes vectors of.
void accumulate(const float* base, float own, const float* from, int32_t n, float* sums) {
  if (n == kLanes) {
    for (int32_t i = 0; i < kLanes; ++i) sums[i] += (base[i] + own) * from[i];
  } else {
    for (int32_t i = 0; i < n; ++i) sums[i] += (base[i] + own) * from[i];
  }
}

// One row: `x` is the row itself, and `taps` rows of its sequence end there.
void convolve(const float* x, int64_t stride, const float* dynamic, const GroupedConv& conv, int32_t taps,
              int32_t channels, bool add, float* out) {
  const int32_t groups = channels / conv.group;
  for (int32_t g = 0; g < groups; ++g) {
    for (int32_t first = g * conv.group; first < (g + 1) * conv.group; first += kLanes) {
      const int32_t n = std::min(kLanes, (g + 1) * conv.group - first);
      float sums[kLanes] = {};
      for (int32_t t = 0; t < taps; ++t) {
        accumulate(conv.base + int64_t{t} * channels + first, dynamic[t * groups + g], x - t * stride + first, n, sums);
      }
      for (int32_t i = 0; i < n; ++i) out[first + i] = add ? out[first + i] + sums[i] : sums[i];
    }
  }
}

// The sum of a[i] * b[i] * c[i], in lanes that are added in a fixed order.
float triple_dot(const float* a, const float* b, const float* c, int32_t n) {
  float sums[kLanes] = {};
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int32_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane] * c[i + lane];
  }
  for (; i < n; ++i) sums[i % kLanes] += a[i] * b[i] * c[i];
  for (int32_t half = kLanes / 2; half > 0; half /= 2) {
    for (int32_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

void CpuOps::grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                          Tensor out) {
  ASHLAR_CHECK_EQ(dynamic.cols, conv.taps * (x.cols / conv.group));
  ASHLAR_CHECK_EQ(x.cols % conv.group, 0);
  for_rows(x.rows, int64_t{conv.taps} * x.cols / 4, [&](int32_t r) {
    int32_t taps = 1;
    while (taps < conv.taps && taps <= r && tables[r - taps] == tables[r]) ++taps;
    convolve(x.row(r), x.stride, dynamic.row(r), conv, taps, x.cols, store == Store::kAdd, out.row(r));
  });
}

void CpuOps::score_edges(const CandidateEdges& edges, Tensor out) {
  const int32_t n = edges.candidates.n, rank = edges.hidden.cols;
  ASHLAR_CHECK_EQ(out.cols, n * n);
  for_rows(out.rows, int64_t{n} * n * rank / 4, [&](int32_t r) {
    const int32_t block = edges.begins[r];
    const float* const logits = edges.candidates.logits + int64_t{r} * n;
    for (int32_t a = 0; a < (block >= 0 ? 1 : n); ++a) {
      const float* const before = block >= 0 ? edges.anchors.row(block) : edges.before.row(int64_t{r - 1} * n + a);
      for (int32_t b = 0; b < n; ++b) {
        const float more = triple_dot(before, edges.hidden.row(r), edges.after.row(int64_t{r} * n + b), rank);
        out.row(r)[a * n + b] = logits[b] + edges.scale * more;
      }
    }
  });
}

}  // namespace ashlar::cpu
