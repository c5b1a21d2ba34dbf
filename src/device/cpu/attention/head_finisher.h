// SPDX-License-Identifier: Apache-2.0
#pragma once
// What becomes of projections: heads normed and rotated, keys and values in the cache.

#include <algorithm>

#include "base/check.h"
#include "device/cpu/attention/coded_pages.h"
#include "device/cpu/attention/projected_heads.h"
#include "device/ops.h"

namespace ashlar::cpu {

inline int64_t key_elements(const AttentionShape& shape) { return int64_t{shape.head_dim} * kPageTokens; }
inline int64_t head_elements(const AttentionShape& shape) {
  return key_elements(shape) + int64_t{padded_head_dim(shape.head_dim)} * kPageTokens;
}

/// K of one head in a scratch slot; V is kv_width() floats after.
inline float* scratch_slot_of(const AttentionShape& shape, KvPlane plane, int32_t slot, int32_t kv_head) {
  return reinterpret_cast<float*>(plane.base + slot / kScratchSlotsPerPage * plane.page_stride) +
         int64_t{slot % kScratchSlotsPerPage} * 2 * shape.kv_width() + int64_t{kv_head} * shape.head_dim;
}

/// Where one token of one head goes in its page.
class PageHead {
 public:
  PageHead(const Kernels& kernels, const AttentionShape& shape, DType kv_dtype, KvPlane plane, const int32_t* pages,
           int32_t position, int32_t kv_head)
      : kernels_(kernels),
        shape_(shape),
        kv_dtype_(kv_dtype),
        head_(plane.base + pages[position / kPageTokens] * plane.page_stride +
              kv_head * head_elements(shape) * static_cast<int64_t>(bytes_of(kv_dtype))),
        token_(position % kPageTokens) {}

  void write_key(const float* k) const {
    if (kv_dtype_ != DType::kF32) return kernels_.store_key(k, shape_.head_dim, token_, narrow());
    for (int32_t d = 0; d < shape_.head_dim; ++d) wide()[int64_t{d} * kPageTokens + token_] = k[d];
  }

  void write_value(const float* v) const {
    if (kv_dtype_ != DType::kF32) {
      return kernels_.store_value(v, shape_.head_dim, token_, narrow() + key_elements(shape_));
    }
    float* values = wide() + key_elements(shape_) + int64_t{token_} * kBlockColumns;
    for (int32_t d = 0; d < shape_.head_dim; ++d) {
      values[int64_t{d / kBlockColumns} * kBlockColumns * kPageTokens + d % kBlockColumns] = v[d];
    }
  }

 private:
  uint16_t* narrow() const { return reinterpret_cast<uint16_t*>(head_); }
  float* wide() const { return reinterpret_cast<float*>(head_); }

  const Kernels& kernels_;
  const AttentionShape& shape_;
  DType kv_dtype_;
  std::byte* head_;
  int32_t token_;
};

/// What store_kv does, head by head. Any worker may finish any of them, in any order.
class HeadFinisher {
 public:
  HeadFinisher(const Kernels& kernels, DType kv_dtype, const KvCodec* codec, const ProjectedHeads& heads,
               const KvStore& to)
      : kernels_(kernels), kv_dtype_(kv_dtype), codec_(codec), heads_(heads), to_(to) {
    ASHLAR_CHECK(heads.q_heads() == to.shape.n_heads || heads.q_heads() == 0);
  }

  const ProjectedHeads& heads() const { return heads_; }

  void finish(int32_t r, int32_t head) const {
    const AttentionShape& shape = to_.shape;
    const Rows& rows = to_.rows;
    float* values = heads_.head(head).row(r);
    const int32_t k_head = head - heads_.q_heads();
    const int32_t v_head = k_head - shape.n_kv_heads;
    if (v_head < 0) rotate(r, values, k_head < 0 ? to_.q_norm : to_.k_norm);
    if (k_head < 0) return scale_query(r, values);
    if (rows.is_without_kv(r)) return;
    const bool value = v_head >= 0;
    const int32_t kv_head = value ? v_head : k_head;
    if (codec_ != nullptr) return store_codes(r, kv_head, value, values);
    if (rows.scratch_slot(r) >= 0) {
      float* slot = scratch_slot_of(shape, to_.plane, rows.scratch_slot(r), kv_head);
      std::copy_n(values, shape.head_dim, value ? slot + shape.kv_width() : slot);
      return;
    }
    const int32_t* pages = rows.page_tables[rows.tables[r]];
    const PageHead page(kernels_, shape, kv_dtype_, to_.plane, pages, rows.positions[r], kv_head);
    value ? page.write_value(values) : page.write_key(values);
  }

 private:
  void store_codes(int32_t r, int32_t kv_head, bool value, const float* values) const {
    const Rows& rows = to_.rows;
    const CodedPages pages(*codec_, to_.shape, to_.plane);
    CodedVector coded;
    pages.codec(value).encode(values, to_.shape.head_dim, coded);
    if (rows.scratch_slot(r) >= 0) return pages.write_slot(coded, rows.scratch_slot(r), kv_head, value);
    pages.write(coded, rows.page_tables[rows.tables[r]], rows.positions[r], kv_head, value);
  }

  void rotate(int32_t r, float* values, const float* norm) const {
    const RopeTable& rope = to_.rope;
    const int32_t position = to_.rows.positions[r];
    ASHLAR_CHECK(position >= 0 && position < rope.max_position);
    const int64_t angle = int64_t{position} * (rope.rotary_dim / 2);
    kernels_.finish_head(
        {values, to_.shape.head_dim, norm, to_.eps, rope.cos + angle, rope.sin + angle, rope.rotary_dim});
  }

  void scale_query(int32_t r, float* values) const {
    if (to_.rope.query_scales == nullptr) return;
    const float scale = to_.rope.query_scales[to_.rows.positions[r]];
    for (int32_t i = 0; i < to_.shape.head_dim; ++i) values[i] *= scale;
  }

  const Kernels& kernels_;
  DType kv_dtype_;
  const KvCodec* codec_;
  const ProjectedHeads heads_;
  const KvStore& to_;
};

}  // namespace ashlar::cpu
