// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "device/ref/ref_kernels.h"
#include "device/ref/ref_train_ops.h"

namespace ashlar::ref {
namespace {

/// Key rows that a row of a block sees: part of its document's context, then of its block.
std::vector<int32_t> visible_rows(const BlockAttention& layout, int32_t row) {
  const int32_t b = row / layout.block;
  const BlockContext& context = layout.blocks[b];
  std::vector<int32_t> rows;
  for (int32_t t = 0; t < context.n; ++t) {
    const int32_t distance = context.n + row % layout.block - t;
    if (layout.window == 0 || distance < layout.window) rows.push_back(context.first + t);
  }
  const int32_t seen = layout.causal ? row % layout.block + 1 : layout.block;
  for (int32_t o = 0; o < seen; ++o) rows.push_back(layout.context_rows + b * layout.block + o);
  return rows;
}

/// One head of one row.
struct Query {
  int32_t row;
  int32_t column;     ///< of q
  int32_t kv_column;  ///< of k and v
  std::vector<int32_t> keys;
};

template <class Fn>
void for_queries(const BlockAttention& layout, const Fn& fn) {
  const int32_t group = layout.heads / layout.kv_heads;
  for (int32_t row = 0; row < layout.block_rows(); ++row) {
    const std::vector<int32_t> keys = visible_rows(layout, row);
    for (int32_t h = 0; h < layout.heads; ++h) {
      fn(Query{row, h * layout.head_dim, h / group * layout.head_dim, keys}, h);
    }
  }
}

std::vector<double> scores(const Query& query, Tensor q, Tensor k, int32_t head_dim) {
  std::vector<double> out;
  for (const int32_t key : query.keys) {
    out.push_back(dot(q.row(query.row) + query.column, k.row(key) + query.kv_column, head_dim) /
                  std::sqrt(static_cast<double>(head_dim)));
  }
  return out;
}

}  // namespace

void block_attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums) {
  for_queries(layout, [&](const Query& query, int32_t head) {
    const std::vector<double> score = scores(query, q, k, layout.head_dim);
    const double highest = *std::max_element(score.begin(), score.end());
    double sum = 0;
    for (const double value : score) sum += std::exp(value - highest);
    for (int32_t i = 0; i < layout.head_dim; ++i) {
      double value = 0;
      for (size_t key = 0; key < score.size(); ++key) {
        value += std::exp(score[key] - highest) / sum * v.row(query.keys[key])[query.kv_column + i];
      }
      out.row(query.row)[query.column + i] = static_cast<float>(value);
    }
    log_sums.row(query.row)[head] = static_cast<float>(highest + std::log(sum));
  });
}

// With P = softmax(S): dV = P^T dO, dP = dO V^T, dS = P (dP - sum over keys of P dP), dQ and dK from dS.
void block_attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor log_sums,
                              Tensor d_q, Tensor d_k, Tensor d_v) {
  const int32_t width = layout.kv_width();
  std::vector<double> of_k(static_cast<size_t>(k.rows) * width);
  std::vector<double> of_v(of_k.size());
  const double scale = 1 / std::sqrt(static_cast<double>(layout.head_dim));
  for_queries(layout, [&](const Query& query, int32_t head) {
    const std::vector<double> score = scores(query, q, k, layout.head_dim);
    const float* d_row = d_out.row(query.row) + query.column;
    std::vector<double> probability(score.size());
    std::vector<double> d_probability(score.size());
    double mean = 0;
    for (size_t key = 0; key < score.size(); ++key) {
      probability[key] = std::exp(score[key] - log_sums.row(query.row)[head]);
      d_probability[key] = dot(d_row, v.row(query.keys[key]) + query.kv_column, layout.head_dim);
      mean += probability[key] * d_probability[key];
    }
    std::vector<double> of_q(layout.head_dim);
    for (size_t key = 0; key < score.size(); ++key) {
      const double d_score = probability[key] * (d_probability[key] - mean) * scale;
      const int64_t at = int64_t{query.keys[key]} * width + query.kv_column;
      for (int32_t i = 0; i < layout.head_dim; ++i) {
        of_q[i] += d_score * k.row(query.keys[key])[query.kv_column + i];
        of_k[at + i] += d_score * q.row(query.row)[query.column + i];
        of_v[at + i] += probability[key] * d_row[i];
      }
    }
    for (int32_t i = 0; i < layout.head_dim; ++i) {
      d_q.row(query.row)[query.column + i] = static_cast<float>(of_q[i]);
    }
  });
  for (int32_t row = 0; row < k.rows; ++row) {
    for (int32_t i = 0; i < width; ++i) {
      d_k.row(row)[i] = static_cast<float>(of_k[static_cast<size_t>(row) * width + i]);
      d_v.row(row)[i] = static_cast<float>(of_v[static_cast<size_t>(row) * width + i]);
    }
  }
}

}  // namespace ashlar::ref
