// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/attention/attention_run.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "device/cpu/attention/head_finisher.h"

namespace ashlar::cpu {

AttentionBlock AttentionRun::describe(const QueryBlock& block) const {
  const int32_t kv_head = block.head / (shape.n_heads / shape.n_kv_heads);
  AttentionBlock call;
  const ProjectedHeads::Head queries = heads.head(block.head);
  call.q = queries.row(block.row);
  call.q_stride = queries.stride;
  call.rows = block.rows;
  call.heads = block.heads;
  call.head_dim = shape.head_dim;
  call.scale = shape.scale;
  call.begin = visible.begin + block.row;
  call.end = visible.end + block.row;
  call.page_table = rows.page_tables[rows.tables[block.row]];
  call.dtype = kv_dtype;
  if (rows.branch_tables != nullptr) {
    call.tables = rows.tables + block.row;
    call.branch_tables = rows.branch_tables;
  }
  if (rows.branch_tables != nullptr && codec == nullptr) {
    call.scratch_slots = scratch_slot_of(shape, plane, 0, kv_head);
    call.scratch_slot_floats = 2 * shape.kv_width();
  }
  if (codec != nullptr) return call;
  call.base = plane.base + kv_head * head_elements(shape) * static_cast<int64_t>(bytes_of(kv_dtype));
  call.page_stride = plane.page_stride;
  return call;
}

void AttentionRun::pack_queries(const AttentionBlock& call, float* worker_scratch) const {
  if (codec == nullptr || !codec->rotates()) return kernels.pack_queries(call, worker_scratch);
  const int64_t d = call.head_dim;
  float* rotated = worker_scratch + states_end(call.head_dim);
  for (int32_t row = 0; row < call.rows; ++row) {
    for (int32_t head = 0; head < call.heads; ++head) {
      float* query = rotated + (int64_t{row} * call.heads + head) * d;
      std::copy_n(call.q + row * call.q_stride + head * d, d, query);
      codec->rotate(query, call.head_dim);
    }
  }
  AttentionBlock in_cache = call;
  in_cache.q = rotated;
  in_cache.q_stride = call.heads * d;
  kernels.pack_queries(in_cache, worker_scratch);
}

void AttentionRun::attend(const QueryBlock& block, const AttentionBlock& call, int32_t segment, float* worker_scratch,
                          float* to) const {
  if (codec == nullptr) return kernels.attend(call, segment, worker_scratch, to);
  constexpr int32_t kPages = kSegmentKeys / kPageTokens;
  static constexpr auto kInOrder = [] {
    std::array<int32_t, kPages> pages{};
    for (int32_t i = 0; i < kPages; ++i) pages[static_cast<size_t>(i)] = i;
    return pages;
  }();
  // The segment becomes a cache of its own: pages of bf16 in their order, seen from their first key on.
  int32_t begin[kMaxQueries], end[kMaxQueries];
  int32_t first = kSegmentKeys;
  int32_t last = 0;
  for (int32_t row = 0; row < call.rows; ++row) {
    begin[row] = std::clamp(call.begin[row] - segment * kSegmentKeys, 0, kSegmentKeys);
    end[row] = std::clamp(call.end[row] - segment * kSegmentKeys, 0, kSegmentKeys);
    if (begin[row] >= end[row]) continue;
    first = std::min(first, begin[row]);
    last = std::max(last, end[row]);
  }
  auto* pages = reinterpret_cast<uint16_t*>(worker_scratch + decoded_pages(shape.head_dim));
  CodedPages(*codec, shape, plane)
      .read_segment(call.page_table, call.branch_table(0), block.head / (shape.n_heads / shape.n_kv_heads), segment,
                    first / kPageTokens, (last + kPageTokens - 1) / kPageTokens, pages);
  AttentionBlock decoded = call;
  decoded.begin = begin;
  decoded.end = end;
  decoded.page_table = kInOrder.data();
  decoded.branch_tables = nullptr;
  decoded.base = reinterpret_cast<const std::byte*>(pages);
  decoded.page_stride = head_elements(shape) * static_cast<int64_t>(bytes_of(kv_dtype));
  kernels.attend(decoded, 0, worker_scratch, to);
}

void AttentionRun::finish(const QueryBlock& block, float* state) const {
  for (int32_t row = block.row; row < block.row + block.rows; ++row) {
    for (int32_t head = block.head; head < block.head + block.heads; ++head, state += floats()) {
      if (rows.is_without_kv(row)) add_own(row, head, state);
      if (shape.sinks != nullptr) add_sink(head, state);
      if (codec != nullptr) codec->rotate_back(state + kStateHeader, shape.head_dim);
      const int32_t column = head * shape.head_dim;
      if (packed != nullptr) {
        finish_packed(state, shape.head_dim, row, column, packed);
      } else {
        kernels.finish(state, shape.head_dim, out.row(row) + column);
      }
    }
  }
}

void AttentionRun::add_own(int32_t row, int32_t head, float* state) const {
  const int32_t d = shape.head_dim;
  const int32_t kv_head = head / (shape.n_heads / shape.n_kv_heads);
  const float* query = heads.head(head).row(row);
  const float* key = heads.head(heads.q_heads() + kv_head).row(row);
  const float* value = heads.head(heads.q_heads() + shape.n_kv_heads + kv_head).row(row);
  float own[state_floats(kMaxHeadDim)] = {0, 1};
  float rounded_key[kMaxHeadDim];
  if (codec != nullptr) {
    std::copy_n(key, d, rounded_key);
    key_codec(*codec).round(rounded_key, d);
    key = rounded_key;
    CodedVector coded;
    codec->encode(value, d, coded);
    codec->decode(coded.codes, coded.scale, d, own + kStateHeader);
  } else {
    std::copy_n(value, d, own + kStateHeader);
  }
  float product = 0;
  for (int32_t i = 0; i < d; ++i) product += query[i] * key[i];
  own[0] = product * shape.scale * std::numbers::log2e_v<float>;
  kernels.merge(state, own, d);
}

void AttentionRun::add_sink(int32_t head, float* state) const {
  const float sink[state_floats(kMaxHeadDim)] = {shape.sinks[head] * std::numbers::log2e_v<float>, 1};
  kernels.merge(state, sink, shape.head_dim);
}

void AttentionRun::whole_block(int32_t index, int32_t worker) const {
  const QueryBlock& block = plan.blocks[static_cast<size_t>(index)];
  const AttentionBlock call = describe(block);
  float* queries = scratch_of(worker);
  float* next = queries + attention_scratch(shape.head_dim);
  float* running = next + kMaxQueries * floats();
  const int32_t count = block.rows * block.heads;
  pack_queries(call, queries);
  if (block.last_segment == block.first_segment + 1) {
    attend(block, call, block.first_segment, queries, next);
    return finish(block, next);
  }
  std::fill_n(running, count * floats(), 0.0F);
  for (int32_t segment = block.first_segment; segment < block.last_segment; ++segment) {
    attend(block, call, segment, queries, next);
    for (int32_t i = 0; i < count; ++i) kernels.merge(running + i * floats(), next + i * floats(), shape.head_dim);
  }
  finish(block, running);
}

void AttentionRun::one_segment(int32_t index, int32_t worker) const {
  const AttentionItem item = plan.items[static_cast<size_t>(index)];
  const QueryBlock& block = plan.blocks[static_cast<size_t>(item.block)];
  const AttentionBlock call = describe(block);
  const int64_t state = block.state + int64_t{item.segment - block.first_segment} * block.rows * block.heads;
  pack_queries(call, scratch_of(worker));
  attend(block, call, item.segment, scratch_of(worker), states + state * floats());
}

void AttentionRun::merge_block(int32_t index) const {
  const QueryBlock& block = plan.blocks[static_cast<size_t>(index)];
  const int32_t count = block.rows * block.heads;
  for (int32_t i = 0; i < count; ++i) {
    float* first = states + (block.state + i) * floats();
    for (int32_t s = 1; s < block.last_segment - block.first_segment; ++s) {
      kernels.merge(first, first + int64_t{s} * count * floats(), shape.head_dim);
    }
  }
  finish(block, states + block.state * floats());
}

}  // namespace ashlar::cpu
