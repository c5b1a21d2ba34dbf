// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/train/train_heads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/row_math.h"
#include "device/cpu/lane_sum.h"
#include "device/row_groups.h"

namespace ashlar::cpu {
namespace {

/// Rows, or groups of them, of one item of a loop.
constexpr int32_t kItemRows = 32;
/// Partial sums of a gradient over rows; how many there are depends on the rows alone.
constexpr int32_t kMaxHeadPartials = 64;

int32_t items(int32_t n, int32_t each) { return (n + each - 1) / each; }

void add_scaled(float factor, const float* from, int32_t n, float* to) {
  for (int32_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

// to[c] += (base[c] + dynamic of c's group) * from[c].
void add_tap(const float* base, const float* dynamic, int32_t group, int32_t groups, const float* from, float* to) {
  for (int32_t g = 0; g < groups; ++g) {
    const float own = dynamic[g];
    for (int32_t c = g * group; c < (g + 1) * group; ++c) to[c] += (base[c] + own) * from[c];
  }
}

// dynamic[g] = the sum over its group of d_out[c] * from[c], each of which is added to base[c].
void add_tap_gradient(const float* d_out, const float* from, int32_t group, int32_t groups, float* dynamic,
                      float* base) {
  for (int32_t g = 0; g < groups; ++g) {
    float sum = 0;
    for (int32_t c = g * group; c < (g + 1) * group; ++c) {
      const float product = d_out[c] * from[c];
      sum += product;
      base[c] += product;
    }
    dynamic[g] = sum;
  }
}

}  // namespace

void list_candidates(const float* logits, int32_t n, const Candidates& out, int32_t row) {
  int32_t* const ids = out.ids + int64_t{row} * out.n;
  float* const values = out.logits + int64_t{row} * out.n;
  const int32_t found = top_k(logits, n, out.n, ids);
  for (int32_t i = 0; i < out.n; ++i) {
    if (i >= found) ids[i] = 0;
    values[i] = i < found ? logits[ids[i]] : -std::numeric_limits<float>::infinity();
  }
}

template <class Fn>
void TrainHeads::for_rows(int32_t rows, const Fn& fn) {
  pool_.run(items(rows, kItemRows), [&](int32_t item, int32_t /*worker*/) {
    for (int32_t r = item * kItemRows; r < std::min((item + 1) * kItemRows, rows); ++r) fn(r);
  });
}

TokenLoss TrainHeads::loss_of_row(const ChoosingRows& rows, int32_t r) const {
  const int32_t n = rows.candidates.n, label = rows.labels[r];
  int32_t* const ids = rows.candidates.ids + int64_t{r} * n;
  float* const logits = rows.candidates.logits + int64_t{r} * n;
  auto place = static_cast<int32_t>(std::find(ids, ids + n, label) - ids);
  const int32_t own = place == n ? n - 1 : n;  // that were not put there
  if (place == n) {
    place = n - 1;
    ids[place] = label;
    logits[place] = kernels_.dot(rows.hidden.row(r), rows.head.row(label), rows.hidden.cols);
  }
  const float* const before = rows.predecessors.row(rows.before[r]);
  const float* const projected = rows.projected.row(r);
  std::array<float, kMaxCandidates> scores;
  for (int32_t j = 0; j < n; ++j) {
    const float* const after = rows.successors.row(ids[j]);
    const float more = lane_sum(rows.rank(), [&](int32_t i) { return before[i] * projected[i] * after[i]; });
    scores[static_cast<size_t>(j)] = logits[j] + rows.scale * more;
  }
  const float highest = *std::max_element(scores.begin(), scores.begin() + n);
  TokenLoss loss;
  loss.best = own == 0 ? -1 : ids[std::max_element(scores.begin(), scores.begin() + own) - scores.begin()];
  float sum = 0;
  for (int32_t j = 0; j < n; ++j) sum += logits[j] = std::exp(scores[static_cast<size_t>(j)] - highest);
  loss.loss = std::log(sum) - (scores[static_cast<size_t>(place)] - highest);
  loss.probability = logits[place] / sum;
  for (int32_t j = 0; j < n; ++j) logits[j] /= sum;
  logits[place] -= 1;
  return loss;
}

void TrainHeads::candidate_loss(const ChoosingRows& rows, TokenLoss* losses) {
  ASHLAR_CHECK(rows.candidates.n >= 1 && rows.candidates.n <= kMaxCandidates);
  for_rows(rows.n_rows(), [&](int32_t r) { losses[r] = loss_of_row(rows, r); });
}

void TrainHeads::candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) {
  const int32_t n = rows.candidates.n, rank = rows.rank();
  for_rows(rows.n_rows(), [&](int32_t r) {
    const int32_t* const ids = rows.candidates.ids + int64_t{r} * n;
    const float* const d_scores = rows.candidates.logits + int64_t{r} * n;
    std::fill_n(out.hidden.row(r), out.hidden.cols, 0.0F);
    for (int32_t j = 0; j < n; ++j) {
      add_scaled(weights[r] * d_scores[j], rows.head.row(ids[j]), out.hidden.cols, out.hidden.row(r));
    }
    float* const sums = out.projected.row(r);
    std::fill_n(sums, rank, 0.0F);
    for (int32_t j = 0; j < n; ++j) add_scaled(d_scores[j], rows.successors.row(ids[j]), rank, sums);
    const float* const codes = rows.predecessors.row(rows.before[r]);
    const float* const projected = rows.projected.row(r);
    float* const before = out.before.row(r);
    float* const after = out.after.row(r);
    const float factor = weights[r] * rows.scale;
    for (int32_t i = 0; i < rank; ++i) {
      before[i] = factor * projected[i] * sums[i];
      after[i] = factor * projected[i] * codes[i];
      sums[i] *= factor * codes[i];
    }
  });
}

void TrainHeads::block_conv(const BlockConvolution& rows, Store store, Tensor out) {
  const int32_t groups = rows.groups();
  ASHLAR_CHECK_EQ(rows.dynamic.cols, rows.conv.taps * groups);
  for_rows(out.rows, [&](int32_t r) {
    if (store == Store::kOverwrite) std::fill_n(out.row(r), out.cols, 0.0F);
    for (int32_t t = 0; t < rows.taps_of(r); ++t) {
      add_tap(rows.conv.base + int64_t{t} * out.cols, rows.dynamic.row(r) + t * groups, rows.conv.group, groups,
              rows.x.row(r - t), out.row(r));
    }
  });
}

void TrainHeads::block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic,
                                     float* d_base) {
  const int32_t groups = rows.groups(), group = rows.conv.group, taps = rows.conv.taps, cols = d_x.cols;
  const int32_t each = std::max(kItemRows, items(d_x.rows, kMaxHeadPartials));
  const int32_t partials = items(d_x.rows, each);
  const int64_t size = int64_t{taps} * cols;
  partials_.assign(static_cast<size_t>(partials * size), 0.0F);
  pool_.run(partials, [&](int32_t item, int32_t /*worker*/) {
    float* const of_base = partials_.data() + item * size;
    for (int32_t r = item * each; r < std::min((item + 1) * each, d_x.rows); ++r) {
      std::fill_n(d_dynamic.row(r), d_dynamic.cols, 0.0F);
      for (int32_t t = 0; t < rows.taps_of(r); ++t) {
        add_tap_gradient(d_out.row(r), rows.x.row(r - t), group, groups, d_dynamic.row(r) + t * groups,
                         of_base + int64_t{t} * cols);
      }
      std::fill_n(d_x.row(r), cols, 0.0F);
      for (int32_t t = 0; t < taps && r + t < d_x.rows && rows.taps_of(r + t) > t; ++t) {
        add_tap(rows.conv.base + int64_t{t} * cols, rows.dynamic.row(r + t) + t * groups, group, groups,
                d_out.row(r + t), d_x.row(r));
      }
    }
  });
  for (int32_t item = 0; item < partials; ++item) {
    for (int64_t i = 0; i < size; ++i) d_base[i] += partials_[static_cast<size_t>(item * size + i)];
  }
}

void TrainHeads::add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) {
  if (rows.rows == 0) return;
  const int32_t n = static_cast<int32_t>(ids.size()) / rows.rows;
  const RowGroups groups = group_rows(ids, table.rows);
  for_rows(groups.n(), [&](int32_t g) {
    float* const to = table.row(groups.ids[static_cast<size_t>(g)]);
    for (int32_t i = groups.begins[static_cast<size_t>(g)]; i < groups.begins[static_cast<size_t>(g) + 1]; ++i) {
      const int32_t entry = groups.entries[static_cast<size_t>(i)];
      add_scaled(scale * (factors != nullptr ? factors[entry] : 1), rows.row(entry / n), rows.cols, to);
    }
  });
}

}  // namespace ashlar::cpu
