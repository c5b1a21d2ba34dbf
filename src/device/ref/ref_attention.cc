// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "device/ref/ref_kernels.h"
#include "device/ref/ref_kv_pages.h"

namespace ashlar::ref {
namespace {

void rotate(float* head, const RopeTable& rope, int32_t position) {
  ASHLAR_CHECK_LT(position, rope.max_position);
  const int32_t half = rope.rotary_dim / 2;
  const float* cos = rope.cos + int64_t{position} * half;
  const float* sin = rope.sin + int64_t{position} * half;
  for (int32_t i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    head[i] = a * cos[i] - b * sin[i];
    head[i + half] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

void rms_norm(const float* x, const float* weight, int32_t n, float eps, float* out) {
  const float scale = 1.0F / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (int32_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

int64_t KvPages::vector_bytes(const AttentionShape& shape) const {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  return codec_ != nullptr ? shape.head_dim + kFloat : shape.head_dim * kFloat;
}

int64_t KvPages::page_bytes(const AttentionShape& shape) const {
  if (codec_ != nullptr) codec_->check(shape.head_dim);
  return int64_t{2} * shape.n_kv_heads * kPageTokens * vector_bytes(shape);
}

std::byte* KvPages::in_page(const int32_t* pages, const AttentionShape& shape, KvPlane plane, int32_t position,
                            int32_t head, bool value) const {
  const int64_t index = int64_t{(value ? shape.n_kv_heads : 0) + head} * kPageTokens + position % kPageTokens;
  return plane.base + pages[position / kPageTokens] * plane.page_stride + index * vector_bytes(shape);
}

std::byte* KvPages::in_scratch(const AttentionShape& shape, KvPlane plane, int32_t slot, int32_t head,
                               bool value) const {
  const int64_t index =
      int64_t{slot % kScratchSlotsPerPage} * 2 * shape.n_kv_heads + (value ? shape.n_kv_heads : 0) + head;
  return plane.base + slot / kScratchSlotsPerPage * plane.page_stride + index * vector_bytes(shape);
}

void KvPages::write(const float* x, const AttentionShape& shape, bool value, std::byte* to) const {
  const int32_t d = shape.head_dim;
  if (codec_ == nullptr) {
    std::memcpy(to, x, sizeof(float) * d);
    return;
  }
  CodedVector coded;
  codec(value).encode(x, d, coded);
  std::memcpy(to, coded.codes, static_cast<size_t>(d));
  std::memcpy(to + d, &coded.scale, sizeof(float));
}

void KvPages::store(Tensor qkv, const KvStore& to) const {
  const AttentionShape& shape = to.shape;
  const Rows& rows = to.rows;
  const int32_t d = shape.head_dim;
  const int32_t q_heads = qkv.cols / d - 2 * shape.n_kv_heads;
  for (int32_t r = 0; r < rows.n; ++r) {
    float* q = qkv.row(r);
    float* k = q + int64_t{q_heads} * d;
    const float* v = k + shape.kv_width();
    for (int32_t h = 0; h < q_heads + shape.n_kv_heads; ++h) {
      float* head = q + int64_t{h} * d;
      const float* norm = h < q_heads ? to.q_norm : to.k_norm;
      if (norm != nullptr) rms_norm(head, norm, d, to.eps, head);
      rotate(head, to.rope, rows.positions[r]);
      if (h >= q_heads || to.rope.query_scales == nullptr) continue;
      for (int32_t i = 0; i < d; ++i) head[i] *= to.rope.query_scales[rows.positions[r]];
    }
    for (int32_t h = 0; h < shape.n_kv_heads && !rows.is_without_kv(r); ++h) {
      const int32_t* pages = rows.page_tables[rows.tables[r]];
      for (const bool value : {false, true}) {
        const int32_t slot = rows.scratch_slot(r);
        write((value ? v : k) + int64_t{h} * d, shape, value,
              slot >= 0 ? in_scratch(shape, to.plane, slot, h, value)
                        : in_page(pages, shape, to.plane, rows.positions[r], h, value));
      }
    }
  }
}

void KvPages::commit(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                     KvPlane plane) const {
  for (int32_t i = 0; i < branch.n; ++i) {
    for (int32_t h = 0; h < shape.n_kv_heads; ++h) {
      for (const bool value : {false, true}) {
        std::memcpy(in_page(page_table, shape, plane, branch.first + i, h, value),
                    in_scratch(shape, plane, branch.slots[i], h, value), static_cast<size_t>(vector_bytes(shape)));
      }
    }
  }
}

void KvPages::see(Tensor q, int32_t row, int32_t kv_head, const AttentionShape& shape, const Rows& rows,
                  Visibility visible, KvPlane plane, bool value, Seen& seen) const {
  const int32_t d = shape.head_dim;
  const int32_t* pages = rows.page_tables[rows.tables[row]];
  const BranchTable branch = rows.branch_table(row);
  const int32_t begin = visible.begin[row];
  const int32_t end = visible.end[row];
  seen.vectors.clear();
  seen.read.resize(static_cast<size_t>(end - begin + 1) * d);
  float* room = seen.read.data();
  for (int32_t p = begin; p < end; ++p, room += d) {
    const bool branched = p >= branch.first && p < branch.end();
    const std::byte* from = branched ? in_scratch(shape, plane, branch.slots[p - branch.first], kv_head, value)
                                     : in_page(pages, shape, plane, p, kv_head, value);
    if (codec_ == nullptr) {
      seen.vectors.push_back(reinterpret_cast<const float*>(from));
      continue;
    }
    float scale;
    std::memcpy(&scale, from + d, sizeof(float));
    codec(value).decode(reinterpret_cast<const uint8_t*>(from), scale, d, room);
    codec(value).rotate_back(room, d);
    seen.vectors.push_back(room);
  }
  if (!rows.is_without_kv(row)) return;
  const float* own = q.row(row) + int64_t{shape.n_heads + kv_head} * d + (value ? shape.kv_width() : 0);
  if (codec_ != nullptr) {
    std::copy_n(own, d, room);
    codec(value).round(room, d);
    own = room;
  }
  seen.vectors.push_back(own);
}

void KvPages::attend(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                     Tensor out) const {
  const int32_t d = shape.head_dim;
  const int32_t group = shape.n_heads / shape.n_kv_heads;
  std::vector<double> weights;
  std::vector<double> sum(d);
  Seen seen_keys, seen_values;
  for (int32_t r = 0; r < rows.n; ++r) {
    for (int32_t h = 0; h < shape.n_heads; ++h) {
      const float* query = q.row(r) + int64_t{h} * d;
      if (h % group == 0) {
        see(q, r, h / group, shape, rows, visible, plane, false, seen_keys);
        see(q, r, h / group, shape, rows, visible, plane, true, seen_values);
      }
      const std::vector<const float*>& keys = seen_keys.vectors;
      const std::vector<const float*>& values = seen_values.vectors;
      weights.assign(keys.size(), 0);
      double highest = -std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < keys.size(); ++i) {
        weights[i] = static_cast<double>(shape.scale) * dot(query, keys[i], d);
        highest = std::max(highest, weights[i]);
      }
      const bool sink = shape.sinks != nullptr && !keys.empty();
      if (sink) highest = std::max(highest, static_cast<double>(shape.sinks[h]));
      double total = sink ? std::exp(shape.sinks[h] - highest) : 0;
      for (double& weight : weights) total += weight = std::exp(weight - highest);
      std::fill(sum.begin(), sum.end(), 0.0);
      for (size_t i = 0; i < values.size(); ++i) {
        for (int32_t c = 0; c < d; ++c) sum[c] += weights[i] * values[i][c];
      }
      float* to = out.row(r) + int64_t{h} * d;
      for (int32_t i = 0; i < d; ++i) to[i] = total > 0 ? static_cast<float>(sum[i] / total) : 0.0F;
    }
  }
}

}  // namespace ashlar::ref
