#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "device/ref/ref_kernels.h"

namespace ashlar::ref {
namespace {

// Page layout of the reference device: K then V, each [n_kv_heads, kPageTokens, head_dim] floats.
float* place(const int32_t* pages, const AttentionShape& shape, KvPlane plane, int32_t position, int32_t head,
             bool value) {
  const int32_t page = pages[position / kPageTokens];
  auto* base = reinterpret_cast<float*>(plane.base + page * plane.page_stride);
  const int64_t half = value ? int64_t{kPageTokens} * shape.kv_width() : 0;
  return base + half + (int64_t{head} * kPageTokens + position % kPageTokens) * shape.head_dim;
}

// Of one head in a scratch slot.
float* scratch_slot(const AttentionShape& shape, KvPlane plane, int32_t slot, int32_t head, bool value) {
  auto* page = reinterpret_cast<float*>(plane.base + slot / kScratchSlotsPerPage * plane.page_stride);
  return page + int64_t{slot % kScratchSlotsPerPage} * 2 * shape.kv_width() + (value ? shape.kv_width() : 0) +
         int64_t{head} * shape.head_dim;
}

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

float dot(const float* a, const float* b, int32_t n) {
  double lanes[4] = {};  // four chains, only because one would wait for itself
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int32_t j = 0; j < 4; ++j) lanes[j] += static_cast<double>(a[i + j]) * b[i + j];
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(a[i]) * b[i];
  return static_cast<float>((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
}

void rms_norm(const float* x, const float* weight, int32_t n, float eps, float* out) {
  const float scale = 1.0F / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (int32_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void store_kv(Tensor qkv, const AttentionShape& shape, const float* q_norm, const float* k_norm, float eps,
              const RopeTable& rope, const Rows& rows, KvPlane plane) {
  const int32_t d = shape.head_dim;
  const int32_t q_heads = qkv.cols / d - 2 * shape.n_kv_heads;
  for (int32_t r = 0; r < rows.n; ++r) {
    float* q = qkv.row(r);
    float* k = q + int64_t{q_heads} * d;
    const float* v = k + shape.kv_width();
    for (int32_t h = 0; h < q_heads + shape.n_kv_heads; ++h) {
      float* head = q + int64_t{h} * d;
      const float* norm = h < q_heads ? q_norm : k_norm;
      if (norm != nullptr) rms_norm(head, norm, d, eps, head);
      rotate(head, rope, rows.positions[r]);
    }
    for (int32_t h = 0; h < shape.n_kv_heads && !rows.is_without_kv(r); ++h) {
      const int32_t* pages = rows.page_tables[rows.tables[r]];
      for (const bool value : {false, true}) {
        float* to = rows.scratch_slot(r) >= 0 ? scratch_slot(shape, plane, rows.scratch_slot(r), h, value)
                                              : place(pages, shape, plane, rows.positions[r], h, value);
        std::memcpy(to, (value ? v : k) + int64_t{h} * d, sizeof(float) * d);
      }
    }
  }
}

void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* pages, KvPlane plane) {
  for (int32_t i = 0; i < branch.n; ++i) {
    for (int32_t h = 0; h < shape.n_kv_heads; ++h) {
      for (const bool value : {false, true}) {
        std::memcpy(place(pages, shape, plane, branch.first + i, h, value),
                    scratch_slot(shape, plane, branch.slots[i], h, value), sizeof(float) * shape.head_dim);
      }
    }
  }
}

void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane, Tensor out) {
  const int32_t d = shape.head_dim;
  const int32_t group = shape.n_heads / shape.n_kv_heads;
  std::vector<double> weights;
  std::vector<double> sum(d);
  std::vector<const float*> keys, values;
  for (int32_t r = 0; r < rows.n; ++r) {
    const int32_t begin = visible.begin[r];
    const int32_t end = visible.end[r];
    const int32_t* pages = rows.page_tables[rows.tables[r]];
    const BranchTable branch = rows.branch_table(r);
    for (int32_t h = 0; h < shape.n_heads; ++h) {
      const float* query = q.row(r) + int64_t{h} * d;
      keys.clear();
      values.clear();
      for (int32_t p = begin; p < end; ++p) {
        const bool branched = p >= branch.first && p < branch.end();
        for (const bool value : {false, true}) {
          const float* at = branched ? scratch_slot(shape, plane, branch.slots[p - branch.first], h / group, value)
                                     : place(pages, shape, plane, p, h / group, value);
          (value ? values : keys).push_back(at);
        }
      }
      if (rows.is_without_kv(r)) {
        keys.push_back(q.row(r) + int64_t{shape.n_heads + h / group} * d);
        values.push_back(keys.back() + shape.kv_width());
      }
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
