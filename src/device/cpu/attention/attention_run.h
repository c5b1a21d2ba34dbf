// SPDX-License-Identifier: Apache-2.0
#pragma once
// One attention call: how its pieces are computed, whichever thread runs them.

#include "device/cpu/attention/attention_plan.h"
#include "device/cpu/attention/coded_pages.h"
#include "device/cpu/attention/projected_heads.h"
#include "device/cpu/isa/kernels.h"

namespace ashlar::cpu {

/// One attention call in pieces that may run on any worker, in any order within a phase.
struct AttentionRun {
  const Kernels& kernels;
  const AttentionPlan& plan;
  const AttentionShape& shape;
  ProjectedHeads heads;
  const Rows& rows;
  Visibility visible;
  KvPlane plane;
  DType kv_dtype;        ///< of pages as kernels read them
  const KvCodec* codec;  ///< null: pages are kept so
  Tensor out;
  float* scratch;  ///< scratch_floats() for each worker
  float* states;   ///< plan.states states
  /// If not null, answers go here instead of to `out`: a block of rows as the kernels pack them.
  std::byte* packed = nullptr;
  decltype(LinearKernels::finish_packed) finish_packed = nullptr;

  int64_t floats() const { return state_floats(shape.head_dim); }
  /// Queries and scores, the states of one segment, the running states; for codes, queries in the coordinates of the
  /// cache and a segment of decoded pages.
  static int64_t scratch_floats(int32_t head_dim, const KvCodec* codec) {
    return codec == nullptr ? states_end(head_dim) : decoded_pages(head_dim) + CodedPages::segment_floats(head_dim);
  }
  /// Where each part of the latter begins; pages on a cache line.
  static int64_t states_end(int32_t head_dim) {
    return attention_scratch(head_dim) + int64_t{2} * kMaxQueries * state_floats(head_dim);
  }
  static int64_t decoded_pages(int32_t head_dim) {
    return round_up(states_end(head_dim) + int64_t{kMaxQueries} * head_dim, 16);
  }
  float* scratch_of(int32_t worker) const { return scratch + worker * scratch_floats(shape.head_dim, codec); }

  AttentionBlock describe(const QueryBlock& block) const;
  /// Queries as kernels want them, in the coordinates of the cache.
  void pack_queries(const AttentionBlock& call, float* worker_scratch) const;
  /// States of the queries of a block over one segment.
  void attend(const QueryBlock& block, const AttentionBlock& call, int32_t segment, float* worker_scratch,
              float* states) const;
  /// The answers of all queries of a block, from the first one's state on.
  void finish(const QueryBlock& block, float* state) const;
  /// Merges the key and value of a row without KV into the state of one of its queries.
  void add_own(int32_t row, int32_t head, float* state) const;
  /// Merges the sink of a head into the state of one of its queries.
  void add_sink(int32_t head, float* state) const;
  /// All segments of a block, merged as they come.
  void whole_block(int32_t index, int32_t worker) const;
  /// One segment of a block, kept apart.
  void one_segment(int32_t index, int32_t worker) const;
  /// Merges the segments that one_segment kept.
  void merge_block(int32_t index) const;
};

}  // namespace ashlar::cpu
