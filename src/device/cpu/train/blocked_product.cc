#include "device/cpu/train/blocked_product.h"

#include <algorithm>
#include <cstring>

namespace ashlar::cpu {
namespace {

// A panel of b, 32 columns of it, then fits into 48 KiB of first-level cache together with one of a.
constexpr int32_t kDepth = 256;
// Columns of b that are packed at a time: 4 MiB.
constexpr int32_t kColumns = 4096;
// Panels of a that stay in the second-level cache while those of b pass, and panels of b of one item.
constexpr int32_t kLeftPanels = 12;
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
  const int32_t rows = kernels_.tile_rows;
  const int32_t columns = kernels_.tile_columns;
  const int32_t left_panels = panels_of(out.rows, rows);
  float* left = left_.floats(int64_t{left_panels} * rows * kDepth);
  float* right = right_.floats(int64_t{panels_of(std::min(out.cols, kColumns), columns)} * columns * kDepth);
  for (int32_t from = 0; from < depth; from += kDepth) {
    const int32_t piece = std::min(kDepth, depth - from);
    for (int32_t first = 0; first < out.cols; first += kColumns) {
      const int32_t n = std::min(kColumns, out.cols - first);
      const int32_t right_panels = panels_of(n, columns);
      const int32_t packed_before = first == 0 ? 0 : left_panels;
      // A few panels an item: packing one may take less than handing it over.
      constexpr int32_t kPanels = 4;
      pool_.run(panels_of(left_panels - packed_before + right_panels, kPanels), [&](int32_t item, int32_t /*worker*/) {
        const int32_t end = std::min((item + 1) * kPanels, left_panels - packed_before + right_panels);
        for (int32_t panel = item * kPanels; panel < end; ++panel) {
          if (panel < right_panels) {
            const int32_t at = panel * columns;
            pack_panel(b.data + from * b.row + (first + at) * b.column, b.column, b.row, std::min(columns, n - at),
                       columns, piece, right + int64_t{at} * piece);
          } else {
            const int32_t at = (panel - right_panels) * rows;
            pack_panel(a.data + at * a.row + from * a.column, a.row, a.column, std::min(rows, out.rows - at), rows,
                       piece, left + int64_t{at} * piece);
          }
        }
      });
      multiply(piece, store == Store::kAdd || from > 0, out.columns(first, n));
    }
  }
}

void BlockedProduct::multiply(int32_t depth, bool add, Tensor out) {
  const int32_t rows = kernels_.tile_rows;
  const int32_t columns = kernels_.tile_columns;
  const float* left = left_.floats(0);
  const float* right = right_.floats(0);
  const int32_t left_panels = panels_of(out.rows, rows);
  const int32_t across = panels_of(panels_of(out.cols, columns), kRightPanels);
  int32_t panels = kLeftPanels;
  while (panels > 1 && panels_of(left_panels, panels) * across < 4 * pool_.size()) panels /= 2;
  pool_.run(panels_of(left_panels, panels) * across, [&](int32_t item, int32_t /*worker*/) {
    const int32_t first_row = item / across * panels * rows;
    const int32_t last_row = std::min(first_row + panels * rows, out.rows);
    const int32_t first_column = item % across * kRightPanels * columns;
    const int32_t last_column = std::min(first_column + kRightPanels * columns, out.cols);
    ProductCall call;
    call.k = depth;
    call.a_row = 1;
    call.a_column = rows;
    call.b_stride = columns;
    call.c_stride = out.stride;
    call.add = add;
    for (int32_t column = first_column; column < last_column; column += columns) {
      call.n = std::min(columns, last_column - column);
      call.b = right + int64_t{column} * depth;
      for (int32_t row = first_row; row < last_row; row += rows) {
        call.m = std::min(rows, last_row - row);
        call.a = left + int64_t{row} * depth;
        call.c = out.row(row) + column;
        kernels_.product(call);
      }
    }
  });
}

}  // namespace ashlar::cpu
