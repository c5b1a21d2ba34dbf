// SPDX-License-Identifier: Apache-2.0
// Convolutions and edges of drafters' heads, and attention among candidates: little next to the products around them,
// so one plain form serves every instruction set, with the same bits.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/lane_sum.h"

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

// One head of one row. qkv: that head's columns of row 0; keys come `cols` columns later, values twice as many.
void attend_to_candidates(Tensor qkv, const CandidateAttention& call, int32_t row, const float* bias, int32_t cols,
                          float* scores, float* out) {
  const int32_t width = cols / call.heads, position = row / call.n;
  const int32_t first = call.first[position] * call.n, end = call.end[position] * call.n;
  const float scale = 1.0F / std::sqrt(static_cast<float>(width));
  const float* const query = qkv.row(row);
  float highest = -std::numeric_limits<float>::infinity();
  for (int32_t j = first; j < end; ++j) {
    const float* const key = qkv.row(j) + cols;
    const float product = lane_sum(width, [&](int32_t i) { return query[i] * key[i]; });
    const float score = product * scale + bias[position - j / call.n];
    scores[j - first] = score;
    highest = std::max(highest, score);
  }
  std::fill_n(out, width, 0.0F);
  float sum = 0;
  for (int32_t j = first; j < end; ++j) {
    const float weight = std::exp(scores[j - first] - highest);
    const float* const value = qkv.row(j) + 2 * cols;
    for (int32_t i = 0; i < width; ++i) out[i] += weight * value[i];
    sum += weight;
  }
  for (int32_t i = 0; i < width; ++i) out[i] /= sum;
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
    const float* const hidden = edges.hidden.row(r);
    for (int32_t a = 0; a < (block >= 0 ? 1 : n); ++a) {
      const float* const before = block >= 0 ? edges.anchors.row(block) : edges.before.row(int64_t{r - 1} * n + a);
      for (int32_t b = 0; b < n; ++b) {
        const float* const after = edges.after.row(int64_t{r} * n + b);
        const float more = lane_sum(rank, [&](int32_t i) { return before[i] * hidden[i] * after[i]; });
        out.row(r)[a * n + b] = logits[b] + edges.scale * more;
      }
    }
  });
}

void CpuOps::candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) {
  ASHLAR_CHECK(qkv.rows == out.rows && qkv.cols == 3 * out.cols && out.cols % call.heads == 0);
  if (out.rows == 0) return;
  const int32_t width = out.cols / call.heads;
  int32_t most = 0;
  for (int32_t p = 0; p < out.rows / call.n; ++p) most = std::max(most, (call.end[p] - call.first[p]) * call.n);
  float* const scores = products_.floats(int64_t{pool_.size()} * most);
  for_rows(out.rows * call.heads, int64_t{most} * width / 2, [&](int32_t item, int32_t worker) {
    const int32_t row = item / call.heads, head = item % call.heads;
    attend_to_candidates(qkv.columns(head * width, 2 * out.cols + width), call, row,
                         call.bias + int64_t{head} * (2 * call.reach + 1) + call.reach, out.cols,
                         scores + int64_t{worker} * most, out.row(row) + head * width);
  });
}

}  // namespace ashlar::cpu
