// SPDX-License-Identifier: Apache-2.0
#pragma once
// How one attention call is cut into blocks of queries and, where there are too few blocks for the threads, into
// segments of keys.

#include <vector>

#include "device/cpu/isa/kernels.h"
#include "device/rows.h"

namespace ashlar::cpu {

/// Consecutive rows of one page table times consecutive heads of one group.
struct QueryBlock {
  int32_t row;
  int32_t rows;
  int32_t head;
  int32_t heads;
  int32_t first_segment;  ///< segments any of the rows can see: [first_segment, last_segment)
  int32_t last_segment;
  int32_t state;  ///< number of its first state, when segments are computed apart
};

struct AttentionItem {
  int32_t block;
  int32_t segment;
};

struct AttentionPlan {
  std::vector<QueryBlock> blocks;
  std::vector<AttentionItem> items;  ///< (block, segment) pairs if split, else empty: a block is one piece of work
  bool parallel = false;             ///< worth the pool
  bool split = false;
  int32_t states = 0;  ///< states to keep if split

  /// Steps differ in how many branches their rows have: room is made once, not whenever there are more than ever
  /// before.
  void reserve();
  /// `join`: rows that differ in their branch tables only may be in one block.
  void build(const AttentionShape& shape, const Rows& rows, const Visibility& visible, int32_t threads, bool join);
};

}  // namespace ashlar::cpu
