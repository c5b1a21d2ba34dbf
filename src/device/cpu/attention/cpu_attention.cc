// SPDX-License-Identifier: Apache-2.0
// The cache and attention over it.

#include <algorithm>

#include "device/cpu/attention/attention_run.h"
#include "device/cpu/attention/head_finisher.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/linear/linear_call.h"

namespace ashlar::cpu {

int64_t CpuOps::kv_page_bytes(const AttentionShape& shape) const {
  if (codec_ != nullptr) {
    codec_->check(shape.head_dim);
    return CodedPages::page_bytes(*codec_, shape);
  }
  return shape.n_kv_heads * head_elements(shape) * static_cast<int64_t>(bytes_of(kv_dtype_));
}

void CpuOps::store_kv(Tensor qkv, const KvStore& to) {
  ASHLAR_CHECK_EQ(qkv.rows, to.rows.n);
  const HeadFinisher heads(kernels_, kv_dtype_, codec_, ProjectedHeads::of(to.shape, qkv), to);
  const Rows& rows = to.rows;
  // Few rows are cut by heads first: rows of a page share its cache lines, heads do not. Many are cut by rows, as in
  // all other ops.
  constexpr int32_t kRowChunk = 8;
  const int32_t chunks = (rows.n + kRowChunk - 1) / kRowChunk;
  const bool has_kv = to.shape.n_kv_heads > 0;
  const int32_t groups = has_kv ? to.shape.n_kv_heads : 1;
  const int32_t queries = heads.heads().q_heads() / groups;
  const bool by_rows = chunks >= 2 * pool_.size();
  const auto piece = [&, by_rows](int32_t item, int32_t) {
    const int32_t first = (by_rows ? item / groups : item % chunks) * kRowChunk;
    const int32_t group = by_rows ? item % groups : item / chunks;
    for (int32_t r = first; r < std::min(first + kRowChunk, rows.n); ++r) {
      for (int32_t h = group * queries; h < (group + 1) * queries; ++h) heads.finish(r, h);
      if (!has_kv) continue;
      heads.finish(r, heads.heads().q_heads() + group);
      heads.finish(r, heads.heads().q_heads() + groups + group);
    }
  };
  const int32_t pieces = groups * chunks;
  if (int64_t{rows.n} * qkv.cols / 4 >= kWorthSharing) return pool_.run(pieces, piece);
  for (int32_t item = 0; item < pieces; ++item) piece(item, 0);
}

void CpuOps::commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                       KvPlane plane) {
  for (int32_t i = 0; i < branch.n; ++i) {
    for (int32_t head = 0; head < shape.n_kv_heads; ++head) {
      if (codec_ != nullptr) {
        const CodedPages pages(*codec_, shape, plane);
        for (const bool value : {false, true}) {
          pages.write(pages.read_slot(branch.slots[i], head, value), page_table, branch.first + i, head, value);
        }
        continue;
      }
      const float* k = scratch_slot_of(shape, plane, branch.slots[i], head);
      const PageHead page(kernels_, shape, kv_dtype_, plane, page_table, branch.first + i, head);
      page.write_key(k);
      page.write_value(k + shape.kv_width());
    }
  }
}

void CpuOps::make_attention_room(int64_t floats) {
  if (floats <= attention_room_) return;
  plan_.reserve();
  attention_scratch_.floats(floats * pool_.size());
  attention_room_ = floats;
}

AttentionRun CpuOps::begin_attention(const ProjectedHeads& heads, const AttentionShape& shape, const Rows& rows,
                                     Visibility visible, KvPlane plane, Tensor out) {
  // Rows whose pages are decoded for a block have one branch table.
  const bool join =
      codec_ == nullptr && kernels_.joins_branches != nullptr && kernels_.joins_branches(shape.head_dim, kv_dtype_);
  const int64_t room = AttentionRun::scratch_floats(shape.head_dim, codec_);
  make_attention_room(room);
  plan_.build(shape, rows, visible, pool_.size(), join);
  float* scratch = attention_scratch_.floats(room * pool_.size());
  float* states = states_.floats(int64_t{plan_.states} * state_floats(shape.head_dim));
  return {kernels_, plan_, shape, heads, rows, visible, plane, kv_dtype_, codec_, out, scratch, states};
}

void CpuOps::attend(const AttentionRun& run) {
  const auto blocks = static_cast<int32_t>(plan_.blocks.size());
  if (!plan_.parallel) {
    for (int32_t b = 0; b < blocks; ++b) run.whole_block(b, 0);
  } else if (!plan_.split) {
    pool_.run(blocks, [&](int32_t block, int32_t worker) { run.whole_block(block, worker); });
  } else {
    pool_.run(static_cast<int32_t>(plan_.items.size()),
              [&](int32_t item, int32_t worker) { run.one_segment(item, worker); });
    for (int32_t b = 0; b < blocks; ++b) run.merge_block(b);
  }
}

void CpuOps::attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                       Tensor out) {
  ASHLAR_CHECK(q.rows == rows.n && out.rows == rows.n);
  ASHLAR_CHECK_LE(shape.q_width() + (rows.without_kv != nullptr ? 2 * shape.kv_width() : 0), q.cols);
  attend(begin_attention({shape, q, shape.n_heads}, shape, rows, visible, plane, out));
}

}  // namespace ashlar::cpu
