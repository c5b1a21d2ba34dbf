// SPDX-License-Identifier: Apache-2.0
#pragma once
// A KV cache of one layer on a device under test, with page tables in random order and rows to run over it.

#include "support.h"

namespace ashlar::conformance {

/// Rotation by zero: leaves its input alone, exactly.
struct IdentityRope {
  explicit IdentityRope(int32_t rotary_dim, int32_t positions)
      : cos(static_cast<size_t>(rotary_dim / 2 * positions), 1.0F), sin(cos.size(), 0.0F) {
    table = {cos.data(), sin.data(), rotary_dim, positions};
  }
  std::vector<float> cos;
  std::vector<float> sin;
  RopeTable table;
};

/// Real angles, base 10000; queries may grow, by a fifth at every eleventh position.
struct RealRope : IdentityRope {
  RealRope(int32_t rotary_dim, int32_t positions, bool grows = false) : IdentityRope(rotary_dim, positions) {
    for (int32_t p = 0; grows && p < positions; ++p) scales.push_back(1.0F + 0.2F * static_cast<float>(p / 11));
    if (grows) table.query_scales = scales.data();
    const int32_t half = rotary_dim / 2;
    for (int32_t p = 0; p < positions; ++p) {
      for (int32_t i = 0; i < half; ++i) {
        const double angle = p * std::pow(10000.0, -static_cast<double>(i) / half);
        cos[static_cast<size_t>(p * half + i)] = static_cast<float>(std::cos(angle));
        sin[static_cast<size_t>(p * half + i)] = static_cast<float>(std::sin(angle));
      }
    }
  }
  std::vector<float> scales;
};

struct Row {
  int32_t table;
  int32_t position;
  int32_t begin = 0;
  int32_t end = 0;
  bool without_kv = false;
};

/// Rows as the ops want them.
struct RowList {
  explicit RowList(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      tables.push_back(row.table);
      positions.push_back(row.position);
      begin.push_back(row.begin);
      end.push_back(row.end);
      without_kv.push_back(row.without_kv ? 1 : 0);
    }
  }
  Rows rows(const std::vector<const int32_t*>& page_tables, int32_t first = 0, int32_t n = -1) const {
    const int32_t count = n < 0 ? static_cast<int32_t>(tables.size()) - first : n;
    const bool any = std::find(without_kv.begin(), without_kv.end(), 1) != without_kv.end();
    return {count,
            nullptr,
            positions.data() + first,
            tables.data() + first,
            page_tables.data(),
            any ? without_kv.data() + first : nullptr};
  }
  Visibility visible(int32_t first = 0) const { return {begin.data() + first, end.data() + first}; }
  std::vector<int32_t> tables, positions, begin, end;
  std::vector<uint8_t> without_kv;
};

class Cache {
 public:
  /// `lengths[t]` is how many positions sequence t has pages for. All bytes start as NaN: what was never stored must
  /// not matter.
  Cache(Ops& ops, const AttentionShape& shape, const std::vector<int32_t>& lengths, uint32_t seed)
      : ops_(ops), shape_(shape) {
    int32_t pages = 0;
    for (int32_t length : lengths) pages += (length + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> order(static_cast<size_t>(pages));
    for (int32_t i = 0; i < pages; ++i) order[static_cast<size_t>(i)] = i;
    std::mt19937 random(seed);
    std::shuffle(order.begin(), order.end(), random);
    size_t next = 0;
    for (int32_t length : lengths) {
      const size_t count = static_cast<size_t>((length + kPageTokens - 1) / kPageTokens);
      tables_.emplace_back(order.begin() + static_cast<int64_t>(next),
                           order.begin() + static_cast<int64_t>(next + count));
      next += count;
    }
    for (const auto& table : tables_) pointers_.push_back(table.data());
    const int64_t stride = ops.kv_page_bytes(shape) + 64;  // other planes lie between
    memory_ = ops.allocate(static_cast<size_t>(stride * std::max(pages, 1)));
    std::memset(memory_->data(), 0xFF, memory_->size());
    plane_ = {memory_->data(), stride};
  }

  const std::vector<const int32_t*>& tables() const { return pointers_; }
  KvPlane plane() const { return plane_; }
  Buffer& memory() { return *memory_; }

  /// Stores qkv rows with the given norms and rotation; q comes back in qkv.
  void store(Matrix& qkv, const RowList& list, const float* q_norm, const float* k_norm, const RopeTable& rope) {
    ops_.store_kv(qkv.view(), {shape_, q_norm, k_norm, 1e-6F, rope, list.rows(pointers_), plane_});
  }
  void attend(Matrix& q, const RowList& list, Matrix& out) {
    ops_.attention(q.view(), shape_, list.rows(pointers_), list.visible(), plane_, out.view());
  }

 private:
  Ops& ops_;
  AttentionShape shape_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<const int32_t*> pointers_;
  std::unique_ptr<Buffer> memory_;
  KvPlane plane_;
};

/// Every position of every sequence, for filling a cache.
inline std::vector<Row> all_positions(const std::vector<int32_t>& lengths) {
  std::vector<Row> rows;
  for (size_t t = 0; t < lengths.size(); ++t) {
    for (int32_t p = 0; p < lengths[t]; ++p) rows.push_back({static_cast<int32_t>(t), p});
  }
  return rows;
}

/// Fills two caches of one shape with the same rows, random and exact in bf16, at every position of `lengths`.
inline void fill_alike(Cache& one, Cache& other, const AttentionShape& shape, const std::vector<int32_t>& lengths,
                       const RopeTable& rope, std::mt19937& random) {
  const RowList filling(all_positions(lengths));
  Matrix rows(static_cast<int32_t>(filling.tables.size()), 2 * shape.kv_width());
  rows.fill_normal(random);
  rows.round_to_bf16();
  one.store(rows, filling, nullptr, nullptr, rope);
  other.store(rows, filling, nullptr, nullptr, rope);
}

}  // namespace ashlar::conformance
