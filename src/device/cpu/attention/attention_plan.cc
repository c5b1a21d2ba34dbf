// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/attention/attention_plan.h"

#include <algorithm>

namespace ashlar::cpu {
namespace {

constexpr int64_t kPairsPerNanosecond = 25;  // products of a query and a key element that one thread does

// Segments a set of rows can see; empty rows see none.
void find_segments(const Visibility& visible, QueryBlock& block, int64_t& work) {
  int32_t first = INT32_MAX;
  int32_t last = 0;
  for (int32_t r = block.row; r < block.row + block.rows; ++r) {
    if (visible.begin[r] >= visible.end[r]) continue;
    first = std::min(first, visible.begin[r]);
    last = std::max(last, visible.end[r]);
    work += int64_t{block.heads} * (visible.end[r] - visible.begin[r]);
  }
  if (first > last) first = last;
  block.first_segment = first / kSegmentKeys;
  block.last_segment = static_cast<int32_t>(round_up(last, kSegmentKeys) / kSegmentKeys);
}

}  // namespace

void AttentionPlan::reserve() {
  constexpr size_t kUsual = 1024;
  blocks.reserve(kUsual);
  items.reserve(kUsual);
}

void AttentionPlan::build(const AttentionShape& shape, const Rows& rows, const Visibility& visible, int32_t threads,
                          bool join) {
  blocks.clear();
  items.clear();
  states = 0;
  int64_t work = 0;  // query-key pairs
  const int32_t group = shape.n_heads / shape.n_kv_heads;
  const int32_t heads = std::min(group, kMaxQueries);
  const int32_t max_rows = std::max(1, kMaxQueries / heads);
  const auto belong_together = [&](int32_t a, int32_t b) {
    if (rows.tables[a] == rows.tables[b]) return true;
    return join && rows.branch_tables != nullptr &&
           rows.page_tables[rows.tables[a]] == rows.page_tables[rows.tables[b]];
  };
  for (int32_t row = 0; row < rows.n;) {
    int32_t end = row + 1;
    while (end < rows.n && end - row < max_rows && belong_together(row, end)) ++end;
    for (int32_t head = 0; head < shape.n_heads; ++head) {
      const int32_t in_group = head % group;
      if (in_group % heads != 0) continue;
      QueryBlock block{row, end - row, head, std::min(heads, group - in_group), 0, 0, 0};
      find_segments(visible, block, work);
      blocks.push_back(block);
    }
    row = end;
  }
  // With two blocks for every thread the blocks alone keep them busy; fewer are cut at segment borders, which are fixed
  // positions, and merged in order: the same sums either way.
  parallel = threads > 1 && work * shape.head_dim / kPairsPerNanosecond >= kWorthWaking;
  int32_t segments = 0;
  for (const QueryBlock& block : blocks) segments = std::max(segments, block.last_segment - block.first_segment);
  split = parallel && segments > 1 && static_cast<int32_t>(blocks.size()) < 2 * threads;
  if (!split) return;
  for (size_t b = 0; b < blocks.size(); ++b) {
    blocks[b].state = states;
    // A block that sees nothing has one segment too: it must write its zeros.
    blocks[b].last_segment = std::max(blocks[b].last_segment, blocks[b].first_segment + 1);
    for (int32_t segment = blocks[b].first_segment; segment < blocks[b].last_segment; ++segment) {
      items.push_back({static_cast<int32_t>(b), segment});
      states += blocks[b].rows * blocks[b].heads;
    }
  }
}

}  // namespace ashlar::cpu
