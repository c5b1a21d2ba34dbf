// SPDX-License-Identifier: Apache-2.0
#include "device/ref/ref_train_heads.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/ref/ref_kernels.h"

namespace ashlar::ref {
namespace {

double weight_of(const BlockConvolution& rows, int32_t r, int32_t t, int32_t c) {
  return double{rows.conv.base[int64_t{t} * rows.x.cols + c]} +
         rows.dynamic.row(r)[t * rows.groups() + c / rows.conv.group];
}

double score_of(const ChoosingRows& rows, int32_t r, int32_t j) {
  const int64_t at = int64_t{r} * rows.candidates.n + j;
  const float* const before = rows.predecessors.row(rows.before[r]);
  const float* const after = rows.successors.row(rows.candidates.ids[at]);
  double sum = 0;
  for (int32_t i = 0; i < rows.rank(); ++i) sum += double{before[i]} * rows.projected.row(r)[i] * after[i];
  return rows.candidates.logits[at] + rows.scale * sum;
}

}  // namespace

void candidate_loss(const ChoosingRows& rows, TokenLoss* losses) {
  const int32_t n = rows.candidates.n;
  std::vector<double> scores(static_cast<size_t>(n));
  for (int32_t r = 0; r < rows.n_rows(); ++r) {
    int32_t* const ids = rows.candidates.ids + int64_t{r} * n;
    float* const logits = rows.candidates.logits + int64_t{r} * n;
    auto place = static_cast<int32_t>(std::find(ids, ids + n, rows.labels[r]) - ids);
    const bool missing = place == n;
    if (missing) {
      place = n - 1;
      ids[place] = rows.labels[r];
      logits[place] = static_cast<float>(dot(rows.hidden.row(r), rows.head.row(rows.labels[r]), rows.hidden.cols));
    }
    for (int32_t j = 0; j < n; ++j) scores[static_cast<size_t>(j)] = score_of(rows, r, j);
    const double highest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - highest);
    const double of_label = scores[static_cast<size_t>(place)] - highest - std::log(sum);
    const auto best = std::max_element(scores.begin(), scores.end() - (missing && n > 1 ? 1 : 0)) - scores.begin();
    losses[r] = {static_cast<float>(-of_label), static_cast<float>(std::exp(of_label)),
                 missing && n == 1 ? -1 : ids[best]};
    for (int32_t j = 0; j < n; ++j) {
      const double q = std::exp(scores[static_cast<size_t>(j)] - highest) / sum;
      logits[j] = static_cast<float>(q - (j == place ? 1 : 0));
    }
  }
}

void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) {
  const int32_t n = rows.candidates.n;
  for (int32_t r = 0; r < rows.n_rows(); ++r) {
    const int32_t* const ids = rows.candidates.ids + int64_t{r} * n;
    const float* const d_scores = rows.candidates.logits + int64_t{r} * n;
    const double weight = weights[r];
    for (int32_t i = 0; i < rows.hidden.cols; ++i) {
      double sum = 0;
      for (int32_t j = 0; j < n; ++j) sum += double{d_scores[j]} * rows.head.row(ids[j])[i];
      out.hidden.row(r)[i] = static_cast<float>(weight * sum);
    }
    for (int32_t i = 0; i < rows.rank(); ++i) {
      const double a = rows.predecessors.row(rows.before[r])[i];
      const double p = rows.projected.row(r)[i];
      double sum = 0;
      for (int32_t j = 0; j < n; ++j) sum += double{d_scores[j]} * rows.successors.row(ids[j])[i];
      out.projected.row(r)[i] = static_cast<float>(weight * rows.scale * a * sum);
      out.before.row(r)[i] = static_cast<float>(weight * rows.scale * p * sum);
      out.after.row(r)[i] = static_cast<float>(weight * rows.scale * a * p);
    }
  }
}

void block_conv(const BlockConvolution& rows, Store store, Tensor out) {
  for (int32_t r = 0; r < out.rows; ++r) {
    for (int32_t c = 0; c < out.cols; ++c) {
      double sum = store == Store::kAdd ? out.row(r)[c] : 0;
      for (int32_t t = 0; t < rows.taps_of(r); ++t) sum += weight_of(rows, r, t, c) * rows.x.row(r - t)[c];
      out.row(r)[c] = static_cast<float>(sum);
    }
  }
}

void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic, float* d_base) {
  const int32_t taps = rows.conv.taps, group = rows.conv.group, groups = rows.groups();
  std::vector<double> of_base(static_cast<size_t>(taps) * static_cast<size_t>(d_x.cols));
  for (int32_t r = 0; r < d_x.rows; ++r) {
    std::fill_n(d_dynamic.row(r), d_dynamic.cols, 0.0F);
    for (int32_t t = 0; t < rows.taps_of(r); ++t) {
      for (int32_t g = 0; g < groups; ++g) {
        double sum = 0;
        for (int32_t c = g * group; c < (g + 1) * group; ++c) {
          const double product = double{d_out.row(r)[c]} * rows.x.row(r - t)[c];
          sum += product;
          of_base[static_cast<size_t>(t * d_x.cols + c)] += product;
        }
        d_dynamic.row(r)[t * groups + g] = static_cast<float>(sum);
      }
    }
    for (int32_t c = 0; c < d_x.cols; ++c) {
      double sum = 0;
      for (int32_t t = 0; t < taps && r + t < d_x.rows && rows.taps_of(r + t) > t; ++t) {
        sum += weight_of(rows, r + t, t, c) * d_out.row(r + t)[c];
      }
      d_x.row(r)[c] = static_cast<float>(sum);
    }
  }
  for (size_t i = 0; i < of_base.size(); ++i) d_base[i] = static_cast<float>(d_base[i] + of_base[i]);
}

void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) {
  const size_t n = rows.rows == 0 ? 0 : ids.size() / static_cast<size_t>(rows.rows);
  for (size_t i = 0; i < ids.size(); ++i) {
    const float* const row = rows.row(static_cast<int64_t>(i / n));
    const float factor = scale * (factors != nullptr ? factors[i] : 1);
    for (int32_t c = 0; c < rows.cols; ++c) table.row(ids[i])[c] += factor * row[c];
  }
}

}  // namespace ashlar::ref
