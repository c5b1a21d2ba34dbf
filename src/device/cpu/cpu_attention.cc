// The cache and attention over it.

#include <algorithm>
#include <cstring>
#include <numbers>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/head_finisher.h"

namespace ashlar::cpu {
namespace {

/// One attention call in pieces that may run on any worker, in any order within a phase.
struct AttentionRun {
  const Kernels& kernels;
  const AttentionPlan& plan;
  Tensor q;
  const AttentionShape& shape;
  const Rows& rows;
  Visibility visible;
  KvPlane plane;
  DType kv_dtype;
  Tensor out;
  float* scratch;  ///< scratch_floats() for each worker
  float* states;   ///< plan.states states

  int64_t floats() const { return state_floats(shape.head_dim); }
  /// Queries and scores, the states of one segment, the running states.
  static int64_t scratch_floats(int32_t head_dim) {
    return attention_scratch(head_dim) + int64_t{2} * kMaxQueries * state_floats(head_dim);
  }
  float* scratch_of(int32_t worker) const { return scratch + worker * scratch_floats(shape.head_dim); }

  AttentionBlock describe(const QueryBlock& block) const;
  /// The answers of all queries of a block, from the first one's state on.
  void finish(const QueryBlock& block, float* state) const;
  /// Merges the key and value of a row that stands apart into the state of one of its queries.
  void add_own(int32_t row, int32_t head, float* state) const;
  /// All segments of a block, merged as they come.
  void whole_block(int32_t index, int32_t worker) const;
  /// One segment of a block, kept apart.
  void one_segment(int32_t index, int32_t worker) const;
  /// Merges the segments that one_segment kept.
  void merge_block(int32_t index) const;
};

AttentionBlock AttentionRun::describe(const QueryBlock& block) const {
  const int32_t kv_head = block.head / (shape.n_heads / shape.n_kv_heads);
  AttentionBlock call;
  call.q = q.row(block.row) + int64_t{block.head} * shape.head_dim;
  call.q_stride = q.stride;
  call.rows = block.rows;
  call.heads = block.heads;
  call.head_dim = shape.head_dim;
  call.scale = shape.scale;
  call.begin = visible.begin + block.row;
  call.end = visible.end + block.row;
  call.page_table = rows.page_tables[rows.tables[block.row]];
  if (rows.overlays != nullptr) {
    call.tables = rows.tables + block.row;
    call.overlays = rows.overlays;
    call.cells = cell_of(shape, plane, 0, kv_head);
    call.cell_floats = 2 * shape.kv_width();
  }
  call.base = plane.base + kv_head * head_elements(shape) * static_cast<int64_t>(bytes_of(kv_dtype));
  call.page_stride = plane.page_stride;
  call.dtype = kv_dtype;
  return call;
}

void AttentionRun::finish(const QueryBlock& block, float* state) const {
  for (int32_t row = block.row; row < block.row + block.rows; ++row) {
    for (int32_t head = block.head; head < block.head + block.heads; ++head, state += floats()) {
      if (rows.is_apart(row)) add_own(row, head, state);
      kernels.finish(state, shape.head_dim, out.row(row) + int64_t{head} * shape.head_dim);
    }
  }
}

void AttentionRun::add_own(int32_t row, int32_t head, float* state) const {
  const int32_t d = shape.head_dim;
  const int32_t kv_head = head / (shape.n_heads / shape.n_kv_heads);
  const float* query = q.row(row) + int64_t{head} * d;
  const float* key = q.row(row) + int64_t{shape.n_heads + kv_head} * d;
  const float* value = key + shape.kv_width();
  float product = 0;
  for (int32_t i = 0; i < d; ++i) product += query[i] * key[i];
  float own[state_floats(kMostHeadDim)] = {product * shape.scale * std::numbers::log2e_v<float>, 1};
  std::copy_n(value, d, own + kStateHeader);
  kernels.merge(state, own, d);
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

}  // namespace

int64_t CpuOps::kv_page_bytes(const AttentionShape& shape) const {
  return shape.n_kv_heads * head_elements(shape) * static_cast<int64_t>(bytes_of(kv_dtype_));
}

void CpuOps::store_kv(Tensor qkv, const KvStore& to) {
  const HeadFinisher heads(kernels_, kv_dtype_, qkv, to);
  const Rows& rows = to.rows;
  // Few rows are cut by heads first: rows of a page share its cache lines, heads do not. Many are cut by rows, as in
  // all other ops.
  constexpr int32_t kRowChunk = 8;
  const int32_t chunks = (rows.n + kRowChunk - 1) / kRowChunk;
  const int32_t groups = to.shape.n_kv_heads;
  const int32_t queries = heads.q_heads() / groups;
  const bool by_rows = chunks >= 2 * pool_.size();
  const auto piece = [&, by_rows](int32_t item, int32_t) {
    const int32_t first = (by_rows ? item / groups : item % chunks) * kRowChunk;
    const int32_t group = by_rows ? item % groups : item / chunks;
    for (int32_t r = first; r < std::min(first + kRowChunk, rows.n); ++r) {
      for (int32_t h = group * queries; h < (group + 1) * queries; ++h) heads.finish(r, h);
      heads.finish(r, heads.q_heads() + group);
      heads.finish(r, heads.q_heads() + groups + group);
    }
  };
  const int32_t pieces = groups * chunks;
  if (int64_t{rows.n} * qkv.cols / 4 >= kWorthSharing) return pool_.run(pieces, piece);
  for (int32_t item = 0; item < pieces; ++item) piece(item, 0);
}

void CpuOps::settle_kv(const AttentionShape& shape, const Overlay& overlay, const int32_t* page_table, KvPlane plane) {
  for (int32_t i = 0; i < overlay.n; ++i) {
    for (int32_t head = 0; head < shape.n_kv_heads; ++head) {
      const float* k = cell_of(shape, plane, overlay.cells[i], head);
      const PageHead page(kernels_, shape, kv_dtype_, plane, page_table, overlay.first + i, head);
      page.write_key(k);
      page.write_value(k + shape.kv_width());
    }
  }
}

// Also in lanes, which come into use by and by, when steps should allocate nothing any more.
void CpuOps::make_attention_room(int64_t floats) {
  if (floats <= attention_room_) return;
  plan_.reserve();
  attention_scratch_.floats(floats * pool_.size());
  for (const auto& lane : lanes_) lane->make_attention_room(floats);
  attention_room_ = floats;
}

void CpuOps::attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                       Tensor out) {
  ASHLAR_CHECK(q.rows == rows.n && out.rows == rows.n);
  ASHLAR_CHECK_LE(shape.q_width() + (rows.apart != nullptr ? 2 * shape.kv_width() : 0), q.cols);
  const bool join = kernels_.joins_branches != nullptr && kernels_.joins_branches(shape.head_dim, kv_dtype_);
  make_attention_room(AttentionRun::scratch_floats(shape.head_dim));
  plan_.build(shape, rows, visible, pool_.size(), join);
  float* scratch = attention_scratch_.floats(AttentionRun::scratch_floats(shape.head_dim) * pool_.size());
  float* states = states_.floats(int64_t{plan_.states} * state_floats(shape.head_dim));
  const AttentionRun run{kernels_, plan_, q, shape, rows, visible, plane, kv_dtype_, out, scratch, states};
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

}  // namespace ashlar::cpu
