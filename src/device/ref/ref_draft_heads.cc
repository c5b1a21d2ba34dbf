// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "device/ref/ref_kernels.h"

namespace ashlar::ref {

void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, bool add, Tensor out) {
  const int32_t groups = x.cols / conv.group;
  for (int32_t r = 0; r < x.rows; ++r) {
    for (int32_t c = 0; c < x.cols; ++c) {
      float sum = 0;
      for (int32_t t = 0; t < conv.taps && t <= r && tables[r - t] == tables[r]; ++t) {
        const float weight = conv.base[int64_t{t} * x.cols + c] + dynamic.row(r)[t * groups + c / conv.group];
        sum += weight * x.row(r - t)[c];
      }
      out.row(r)[c] = add ? out.row(r)[c] + sum : sum;
    }
  }
}

void find_candidates(Tensor logits, Candidates out) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (int32_t r = 0; r < logits.rows; ++r) {
    const float* const row = logits.row(r);
    std::vector<int32_t> order;
    for (int32_t i = 0; i < logits.cols; ++i) {
      if (row[i] > kLowest) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [row](int32_t a, int32_t b) { return row[a] > row[b]; });
    for (int32_t i = 0; i < out.n; ++i) {
      const bool found = i < static_cast<int32_t>(order.size());
      out.ids[int64_t{r} * out.n + i] = found ? order[static_cast<size_t>(i)] : 0;
      out.logits[int64_t{r} * out.n + i] = found ? row[order[static_cast<size_t>(i)]] : kLowest;
    }
  }
}

void score_edges(const CandidateEdges& edges, Tensor out) {
  const int32_t n = edges.candidates.n, rank = edges.hidden.cols;
  for (int32_t r = 0; r < out.rows; ++r) {
    const int32_t block = edges.begins[r];
    for (int32_t a = 0; a < (block >= 0 ? 1 : n); ++a) {
      const float* const before = block >= 0 ? edges.anchors.row(block) : edges.before.row(int64_t{r - 1} * n + a);
      for (int32_t b = 0; b < n; ++b) {
        const float* const after = edges.after.row(int64_t{r} * n + b);
        double sum = 0;
        for (int32_t i = 0; i < rank; ++i) sum += double{before[i]} * edges.hidden.row(r)[i] * after[i];
        out.row(r)[a * n + b] = edges.candidates.logits[int64_t{r} * n + b] + edges.scale * static_cast<float>(sum);
      }
    }
  }
}

void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) {
  const int32_t width = out.cols / call.heads, n = call.n;
  std::vector<double> scores;
  for (int32_t r = 0; r < out.rows; ++r) {
    const int32_t position = r / n, first = call.first[position] * n, end = call.end[position] * n;
    for (int32_t h = 0; h < call.heads; ++h) {
      const float* const bias = call.bias + int64_t{h} * (2 * call.reach + 1) + call.reach;
      const float* const query = qkv.row(r) + h * width;
      scores.clear();
      double highest = -std::numeric_limits<double>::infinity();
      for (int32_t j = first; j < end; ++j) {
        const double product = dot(query, qkv.row(j) + out.cols + h * width, width);
        scores.push_back(product / std::sqrt(static_cast<double>(width)) + bias[position - j / n]);
        highest = std::max(highest, scores.back());
      }
      std::vector<double> mixed(static_cast<size_t>(width));
      double sum = 0;
      for (int32_t j = first; j < end; ++j) {
        const double weight = std::exp(scores[static_cast<size_t>(j - first)] - highest);
        const float* const value = qkv.row(j) + 2 * out.cols + h * width;
        for (int32_t i = 0; i < width; ++i) mixed[static_cast<size_t>(i)] += weight * value[i];
        sum += weight;
      }
      for (int32_t i = 0; i < width; ++i) {
        out.row(r)[h * width + i] = static_cast<float>(mixed[static_cast<size_t>(i)] / sum);
      }
    }
  }
}

}  // namespace ashlar::ref
