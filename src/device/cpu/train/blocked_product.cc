// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/train/blocked_product.h"

#include <algorithm>
#include <cstring>

namespace ashlar::cpu {
namespace {

// A panel of b, 32 columns of it, then fits into 48 KiB of first-level cache together with one of a.
constexpr int32_t kDepth = 256;
// Columns of b that are packed at a time: 4 MiB.
constexpr int32_t kColumns = 4096;
// Rows of a that stay in the second-level cache while panels of b pass, and panels of b of one item.
constexpr int32_t kLeftRows = 168;
// Tiles that go through the columns together: each row of the result lies in other pages, and translations of their
// addresses are few.
constexpr int32_t kTilesTogether = 4;
constexpr int32_t kRightPanels = 8;

int32_t panels_of(int32_t n, int32_t width) { return (n + width - 1) / width; }

/// [depth][width] of element (i, j) at from[i * across + j * along], i < count <= width; the rest are zeros.
void pack_panel(const float* from, int64_t across, int64_t along, int32_t count, int32_t width, int32_t depth,
                float* to) {
  if (count < width) std::memset(to, 0, sizeof(float) * static_cast<size_t>(width) * depth);
  if (across == 1) {
    for (int32_t j = 0; j < depth; ++j) std::memcpy(to + int64_t{j} * width, from + j * along, sizeof(float) * count);
    return;
  }
  // Pieces of a cache line of each source row, so that few lines of both sides are open at a time.
  constexpr int32_t kPiece = 16;
  for (int32_t first = 0; first < depth; first += kPiece) {
    const int32_t n = std::min(kPiece, depth - first);
    for (int32_t i = 0; i < count; ++i) {
      const float* source = from + i * across + first;
      float* target = to + int64_t{first} * width + i;
      for (int32_t j = 0; j < n; ++j) target[int64_t{j} * width] = source[j];
    }
  }
}

}  // namespace

void BlockedProduct::run(const Factor& a, const Factor& b, int32_t depth, Store store, Tensor out) {
  const bool packs = a.column != 1;
  const int32_t rows = packs ? kernels_.tile_rows : kernels_.strided_rows;
  const int32_t columns = kernels_.tile_columns;
  const int32_t left_panels = packs ? panels_of(out.rows, rows) : 0;
  float* packed = left_.floats(int64_t{left_panels} * rows * kDepth);
  float* right = right_.floats(int64_t{panels_of(std::min(out.cols, kColumns), columns)} * columns * kDepth);
  for (int32_t from = 0; from < depth; from += kDepth) {
    const int32_t piece = std::min(kDepth, depth - from);
    const Left left =
        packs ? Left{packed, 1, rows, rows, int64_t{rows} * piece} : Left{a.data + from, a.row, 1, rows, rows * a.row};
    for (int32_t first = 0; first < out.cols; first += kColumns) {
      const int32_t n = std::min(kColumns, out.cols - first);
      const int32_t right_panels = panels_of(n, columns);
      const int32_t panels = right_panels + (first == 0 ? left_panels : 0);
      // A few panels an item: packing one may take less than handing it over.
      constexpr int32_t kPanels = 4;
      pool_.run(panels_of(panels, kPanels), [&](int32_t item, int32_t /*worker*/) {
        for (int32_t panel = item * kPanels; panel < std::min((item + 1) * kPanels, panels); ++panel) {
          if (panel < right_panels) {
            const int32_t at = panel * columns;
            pack_panel(b.data + from * b.row + (first + at) * b.column, b.column, b.row, std::min(columns, n - at),
                       columns, piece, right + int64_t{at} * piece);
          } else {
            const int32_t at = (panel - right_panels) * rows;
            pack_panel(a.data + at * a.row + from * a.column, a.row, a.column, std::min(rows, out.rows - at), rows,
                       piece, packed + int64_t{at} * piece);
          }
        }
      });
      multiply(left, right, piece, store == Store::kAdd || from > 0, out.columns(first, n));
    }
  }
}

void BlockedProduct::multiply(const Left& left, const float* right, int32_t depth, bool add, Tensor out) {
  const int32_t columns = kernels_.tile_columns;
  const int32_t tiles = panels_of(out.rows, left.rows);
  const int32_t across = panels_of(panels_of(out.cols, columns), kRightPanels);
  int32_t many = std::max(kLeftRows / left.rows, 1);
  while (many > 1 && panels_of(tiles, many) * across < 4 * pool_.size()) many /= 2;
  pool_.run(panels_of(tiles, many) * across, [&](int32_t item, int32_t /*worker*/) {
    const int32_t first_tile = item / across * many;
    const int32_t last_tile = std::min(first_tile + many, tiles);
    const int32_t first_column = item % across * kRightPanels * columns;
    const int32_t last_column = std::min(first_column + kRightPanels * columns, out.cols);
    ProductCall call;
    call.k = depth;
    call.a_row = left.row;
    call.a_column = left.column;
    call.b_stride = columns;
    call.c_stride = out.stride;
    call.add = add;
    for (int32_t group = first_tile; group < last_tile; group += kTilesTogether) {
      const int32_t group_end = std::min(group + kTilesTogether, last_tile);
      for (int32_t column = first_column; column < last_column; column += columns) {
        call.n = std::min(columns, last_column - column);
        call.b = right + int64_t{column} * depth;
        for (int32_t tile = group; tile < group_end; ++tile) {
          const int32_t row = tile * left.rows;
          call.m = std::min(left.rows, out.rows - row);
          call.a = left.data + tile * left.tile_stride;
          call.c = out.row(row) + column;
          kernels_.product(call);
        }
      }
    }
  });
}

}  // namespace ashlar::cpu
