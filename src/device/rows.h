#pragma once
// The one description of work that every op understands: rows of sequences, and what each may see.

#include <cstdint>
#include <span>

#include "device/tensor.h"

namespace ashlar {

/// Tokens in one page of the KV cache. Also the unit of prefix sharing.
inline constexpr int32_t kPageTokens = 16;

/// Cells in one page that no page table has. Cell s, in page s / kPageCells, holds K and V of one token as floats.
inline constexpr int32_t kPageCells = 8;
/// Most positions of an overlay.
inline constexpr int32_t kMostOverlaid = 64;

/// Keys and values of a branch of drafts, which stand at positions where another branch has its own in the pages: those
/// of position first + i are in cell cells[i].
struct Overlay {
  int32_t first = 0;
  int32_t n = 0;
  const int32_t* cells = nullptr;

  int32_t end() const { return first + n; }
};

/// Rows of one forward, as parallel arrays of length n. A row is one token of one sequence.
/// Rows of a sequence are consecutive and ascend in position; rows of different sequences are independent.
struct Rows {
  int32_t n = 0;
  const int32_t* ids = nullptr;                 ///< token ids
  const int32_t* positions = nullptr;           ///< absolute positions, 0-based
  const int32_t* tables = nullptr;              ///< which page table the row reads and writes (index into page_tables)
  const int32_t* const* page_tables = nullptr;  ///< page_tables[t][position / kPageTokens] is a page id
  /// Rows that stand apart (null: none): their K and V stay out of the cache, and only the row itself sees them, as one
  /// more key behind its visible range.
  const uint8_t* apart = nullptr;
  /// Rows whose K and V go to a cell instead of their position (null: none); -1: to the position.
  const int32_t* cells = nullptr;
  const Overlay* overlays = nullptr;  ///< by table, of which several may be the same; null: none

  int32_t cell(int32_t row) const { return cells != nullptr ? cells[row] : -1; }
  Overlay overlay(int32_t row) const { return overlays != nullptr ? overlays[tables[row]] : Overlay{}; }
  bool is_apart(int32_t row) const { return apart != nullptr && apart[row] != 0; }
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
    if (apart != nullptr) rest.apart += count;
    if (cells != nullptr) rest.cells += count;
    return rest;
  }
};

/// Keys a row may attend to: absolute positions [begin[r], end[r]) of its own sequence, contiguous for every method
/// (causal, sliding, whole block). begin <= end; an empty range yields zeros.
struct Visibility {
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;

  Visibility skip(int32_t rows) const { return {begin + rows, end + rows}; }
};

/// Largest head_dim.
inline constexpr int32_t kMostHeadDim = 512;

/// Geometry of one attention layer. head_dim is even; n_heads is a multiple of n_kv_heads.
struct AttentionShape {
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0;  ///< multiplies q.k

  int32_t q_width() const { return n_heads * head_dim; }
  int32_t kv_width() const { return n_kv_heads * head_dim; }
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
};

}  // namespace ashlar
