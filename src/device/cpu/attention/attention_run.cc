#include "device/cpu/attention/attention_run.h"

#include <algorithm>
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
  if (rows.branch_tables != nullptr) {
    call.tables = rows.tables + block.row;
    call.branch_tables = rows.branch_tables;
    call.scratch_slots = scratch_slot_of(shape, plane, 0, kv_head);
    call.scratch_slot_floats = 2 * shape.kv_width();
  }
  call.base = plane.base + kv_head * head_elements(shape) * static_cast<int64_t>(bytes_of(kv_dtype));
  call.page_stride = plane.page_stride;
  call.dtype = kv_dtype;
  return call;
}

void AttentionRun::finish(const QueryBlock& block, float* state) const {
  for (int32_t row = block.row; row < block.row + block.rows; ++row) {
    for (int32_t head = block.head; head < block.head + block.heads; ++head, state += floats()) {
      if (rows.is_without_kv(row)) add_own(row, head, state);
      if (shape.sinks != nullptr) add_sink(head, state);
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
  float product = 0;
  for (int32_t i = 0; i < d; ++i) product += query[i] * key[i];
  float own[state_floats(kMaxHeadDim)] = {product * shape.scale * std::numbers::log2e_v<float>, 1};
  std::copy_n(value, d, own + kStateHeader);
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
  kernels.pack_queries(call, queries);
  if (block.last_segment == block.first_segment + 1) {
    kernels.attend(call, block.first_segment, queries, next);
    return finish(block, next);
  }
  std::fill_n(running, count * floats(), 0.0F);
  for (int32_t segment = block.first_segment; segment < block.last_segment; ++segment) {
    kernels.attend(call, segment, queries, next);
    for (int32_t i = 0; i < count; ++i) kernels.merge(running + i * floats(), next + i * floats(), shape.head_dim);
  }
  finish(block, running);
}

void AttentionRun::one_segment(int32_t index, int32_t worker) const {
  const AttentionItem item = plan.items[static_cast<size_t>(index)];
  const QueryBlock& block = plan.blocks[static_cast<size_t>(item.block)];
  const AttentionBlock call = describe(block);
  const int64_t state = block.state + int64_t{item.segment - block.first_segment} * block.rows * block.heads;
  kernels.pack_queries(call, scratch_of(worker));
  kernels.attend(call, item.segment, scratch_of(worker), states + state * floats());
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
