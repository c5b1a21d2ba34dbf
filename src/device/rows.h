// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one description of work that every op understands: rows of sequences, and what each may see.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/tensor.h"

namespace ashlar {

/// Tokens in one page of the KV cache. Also the unit of prefix sharing.
inline constexpr int32_t kPageTokens = 16;

/// Scratch slots in one page that no page table has. Slot s, in page s / kScratchSlotsPerPage, holds K and V of one
/// token as floats.
inline constexpr int32_t kScratchSlotsPerPage = 8;
/// Most positions of a branch table.
inline constexpr int32_t kMaxBranchTokens = 64;

/// Keys and values of a branch of drafts, which stand at positions where another branch has its own in the pages: those
/// of position first + i are in scratch slot slots[i].
struct BranchTable {
  int32_t first = 0;
  int32_t n = 0;
  const int32_t* slots = nullptr;

  int32_t end() const { return first + n; }
};

/// What recurrent layers read and write of one sequence in a forward of n rows. They begin with zeros where the first
/// row stands at position 0, else with the state of the slot, in which the first `replays` rows of its log are still
/// missing. They leave the state before the last `choices` rows, and in the log what these rows did, so that a commit
/// of fewer rows than n is a number of rows to replay.
struct StateSpan {
  /// Where the state after row `row` of the span is copied to; -1: nowhere.
  struct Save {
    int32_t row = -1;
    int32_t snapshot = -1;
  };
  int32_t slot = 0;
  int32_t replays = 0;
  int32_t choices = 1;
  Save saves[2];

  /// Rows of n that go to the log.
  int32_t logged(int32_t n) const { return std::min(choices, n); }
  /// `replays` of the next span where the first `committed` of n rows stay.
  int32_t replays_after(int32_t n, int32_t committed) const { return committed - (n - logged(n)); }
};

/// States of one layer. Each slot has a state and the rows of its log; snapshots are states without a log. What is
/// inside belongs to the layer.
struct StatePlane {
  std::byte* base = nullptr;
  int64_t stride = 0;      ///< bytes of a state
  int64_t log_stride = 0;  ///< bytes of a row of the log
  int32_t slots = 0;
  int32_t log_rows = 0;  ///< of each slot

  std::byte* state(int32_t slot) const { return base + slot * (stride + log_rows * log_stride); }
  std::byte* log(int32_t slot, int32_t row) const { return state(slot) + stride + row * log_stride; }
  std::byte* snapshot(int32_t index) const { return state(slots) + index * stride; }
};

/// Rows of one forward, as parallel arrays of length n. A row is one token of one sequence.
/// Rows of a sequence are consecutive and ascend in position; rows of different sequences are independent.
struct Rows {
  int32_t n = 0;
  const int32_t* ids = nullptr;                 ///< token ids
  const int32_t* positions = nullptr;           ///< absolute positions, 0-based
  const int32_t* tables = nullptr;              ///< which page table the row reads and writes (index into page_tables)
  const int32_t* const* page_tables = nullptr;  ///< page_tables[t][position / kPageTokens] is a page id
  /// Rows without KV (null: none): their K and V stay out of the cache, and only the row itself sees them, as one
  /// more key after its visible range.
  const uint8_t* without_kv = nullptr;
  /// Rows whose K and V go to a scratch slot instead of their position (null: none); -1: to the position.
  const int32_t* scratch_slots = nullptr;
  const BranchTable* branch_tables = nullptr;  ///< by table, of which several may be the same; null: none
  const StateSpan* states = nullptr;           ///< by table
  const int32_t* block_ends = nullptr;  ///< one past the last position that a layer without causality lets a row see
  const int32_t* first_keys = nullptr;  ///< by table: rows see keys from this position on

  int32_t scratch_slot(int32_t row) const { return scratch_slots != nullptr ? scratch_slots[row] : -1; }
  BranchTable branch_table(int32_t row) const {
    return branch_tables != nullptr ? branch_tables[tables[row]] : BranchTable{};
  }
  bool is_without_kv(int32_t row) const { return without_kv != nullptr && without_kv[row] != 0; }
  /// Rows [first, first + count).
  Rows part(int32_t first, int32_t count) const {
    Rows rows = skip(first);
    rows.n = count;
    return rows;
  }
  /// All but the first `count` rows.
  Rows skip(int32_t count) const {
    Rows rest = *this;
    rest.n -= count;
    rest.ids += count;
    rest.positions += count;
    rest.tables += count;
    if (block_ends != nullptr) rest.block_ends += count;
    if (without_kv != nullptr) rest.without_kv += count;
    if (scratch_slots != nullptr) rest.scratch_slots += count;
    return rest;
  }
};

/// Calls fn(first, n) for the rows of each sequence. For devices whose memory is the host's own.
template <class Fn>
void for_each_sequence(const Rows& rows, const Fn& fn) {
  for (int32_t first = 0; first < rows.n;) {
    int32_t n = 1;
    while (first + n < rows.n && rows.tables[first + n] == rows.tables[first]) ++n;
    fn(first, n);
    first += n;
  }
}

/// Keys a row may attend to: absolute positions [begin[r], end[r]) of its own sequence, contiguous for every method
/// (causal, sliding, whole block). begin <= end; an empty range yields zeros.
struct Visibility {
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;

  Visibility skip(int32_t rows) const { return {begin + rows, end + rows}; }
};

/// Largest head_dim.
inline constexpr int32_t kMaxHeadDim = 512;

/// Geometry of one attention layer. head_dim is even; n_heads is a multiple of n_kv_heads.
struct AttentionShape {
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0;  ///< multiplies q.k
  /// A score for each head that takes its part of the softmax and adds no value, in device memory; null: none.
  const float* sinks = nullptr;

  int32_t q_width() const { return n_heads * head_dim; }
  int32_t kv_width() const { return n_kv_heads * head_dim; }
  bool operator==(const AttentionShape&) const = default;
};

/// K and V of one layer for all pages: page p starts at base + p * page_stride bytes. Inside a page the layout belongs
/// to the device; its size is Ops::kv_page_bytes.
struct KvPlane {
  std::byte* base = nullptr;
  int64_t page_stride = 0;
};

/// Cosines and sines of rotary embedding in the rotate-half (NeoX) pairing: element i of a head is paired with i +
/// rotary_dim/2. cos and sin are [max_position, rotary_dim / 2] floats in device memory.
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int32_t rotary_dim = 0;
  int32_t max_position = 0;
  /// What queries are multiplied by once they are rotated, [max_position] floats in device memory; null: nothing.
  const float* query_scales = nullptr;
};

}  // namespace ashlar
