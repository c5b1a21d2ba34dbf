// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the heads of a projection lie between the ops of an attention layer.

#include <cstdint>

#include "device/cpu/isa/kernels.h"
#include "device/tensor.h"

namespace ashlar::cpu {

/// Heads in the order of a projection's columns: those of queries (or none), of keys, of values.
class ProjectedHeads {
 public:
  /// One head of all rows.
  struct Head {
    float* data;
    int64_t stride;  ///< floats from one row to the next
    float* row(int32_t r) const { return data + r * stride; }
  };

  /// Side by side: [rows, (q_heads + 2 n_kv_heads) * head_dim].
  ProjectedHeads(const AttentionShape& shape, Tensor qkv, int32_t q_heads)
      : shape_(shape), q_heads_(q_heads), data_(qkv.row(0)), stride_(qkv.stride) {}

  /// By key/value head, each with its queries in memory pages of its own: group_floats() each, from `data` on, which
  /// is on a border of pages.
  ProjectedHeads(const AttentionShape& shape, int32_t rows, float* data)
      : shape_(shape), q_heads_(shape.n_heads), data_(data), group_(group_floats(shape, rows)), rows_(rows) {}

  /// The same of a projection that may leave the queries out.
  static ProjectedHeads of(const AttentionShape& shape, Tensor qkv) {
    return {shape, qkv, qkv.cols / shape.head_dim - 2 * shape.n_kv_heads};
  }

  static int64_t group_floats(const AttentionShape& shape, int32_t rows) {
    return round_up(int64_t{rows} * (shape.n_heads / shape.n_kv_heads + 2) * shape.head_dim, kFloatsOfPage);
  }

  int32_t q_heads() const { return q_heads_; }

  /// Query heads of one key/value head are neighbours in a row.
  Head head(int32_t index) const {
    const int64_t dim = shape_.head_dim;
    if (group_ == 0) return {data_ + index * dim, stride_};
    const int32_t queries = shape_.n_heads / shape_.n_kv_heads;
    if (index < q_heads_) return {data_ + index / queries * group_ + index % queries * dim, queries * dim};
    const int32_t kv = index - q_heads_;
    float* keys = data_ + kv % shape_.n_kv_heads * group_ + rows_ * queries * dim;
    return {kv < shape_.n_kv_heads ? keys : keys + rows_ * dim, dim};
  }

 private:
  const AttentionShape& shape_;
  int32_t q_heads_;
  float* data_;
  int64_t stride_ = 0;
  int64_t group_ = 0;  // floats from one key/value head to the next; 0: side by side
  int64_t rows_ = 0;
};

}  // namespace ashlar::cpu
