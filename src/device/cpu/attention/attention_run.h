#pragma once
// One attention call: how its pieces are computed, whichever thread runs them.

#include "device/cpu/attention/attention_plan.h"
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
  DType kv_dtype;
  Tensor out;
  float* scratch;  ///< scratch_floats() for each worker
  float* states;   ///< plan.states states
  /// If not null, answers go here instead of to `out`: a block of rows as the kernels pack them.
  std::byte* packed = nullptr;
  decltype(LinearKernels::finish_packed) finish_packed = nullptr;

  int64_t floats() const { return state_floats(shape.head_dim); }
  /// Queries and scores, the states of one segment, the running states.
  static int64_t scratch_floats(int32_t head_dim) {
    return attention_scratch(head_dim) + int64_t{2} * kMaxQueries * state_floats(head_dim);
  }
  float* scratch_of(int32_t worker) const { return scratch + worker * scratch_floats(shape.head_dim); }

  AttentionBlock describe(const QueryBlock& block) const;
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
