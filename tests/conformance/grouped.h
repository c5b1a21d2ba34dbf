// SPDX-License-Identifier: Apache-2.0
#pragma once
// What products with weights in groups must be, on whatever has them.

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support.h"

namespace ashlar::conformance {

inline constexpr int32_t kGroup = 32;

/// Rounds each group of a row as a product does: to whole steps of the least power of two of which 127 * 32 (weights of
/// 8 bits) or 127 * 128 (4 bits) reach its largest value.
inline void round_groups(Matrix& values, int32_t r, int32_t bits) {
  for (int32_t begin = 0; begin < values.cols(); begin += kGroup) {
    const int32_t end = std::min(begin + kGroup, values.cols());
    float top = 0;
    for (int32_t c = begin; c < end; ++c) top = std::max(top, std::abs(values.row(r)[c]));
    if (top == 0) continue;
    const float step = std::exp2(std::ceil(std::log2(top / (bits == 8 ? 4064 : 16256))));
    for (int32_t c = begin; c < end; ++c) values.row(r)[c] = std::nearbyint(values.row(r)[c] / step) * step;
  }
}

/// Numbers on the grids that the format has: whole steps of a scale that f16 holds, of 4 bits from a lowest value on.
inline Matrix on_grids(int32_t n, int32_t k, int32_t bits, std::mt19937& random) {
  Matrix out(n, k, 0);
  for (int32_t r = 0; r < n; ++r) {
    for (int32_t begin = 0; begin < k; begin += kGroup) {
      const auto scale = static_cast<float>(1 + random() % 128) / 8192;
      const float lowest = -scale * static_cast<float>(random() % 16);
      const bool whole_group = begin + kGroup <= k;  // of which not every one has all of its steps
      const uint32_t steps = bits == 4 ? (whole_group ? 15 - random() % 6 : 15) : 127;
      for (int32_t c = begin; c < std::min(begin + kGroup, k); ++c) {
        const auto whole = static_cast<float>(c == begin ? 0 : c == begin + 1 ? steps : random() % (steps + 1));
        out.row(r)[c] = bits == 4 ? lowest + scale * whole : scale * (c == begin ? 127 : random() % 2 ? whole : -whole);
      }
    }
  }
  return out;
}
/// Products are those of `ref` with the same weights, with rows rounded group by group if the device rounds them, and a
/// row has the same bits alone.
inline void expect_grouped_products(Ops& ops, int32_t bits, std::mt19937& random, bool rounds_rows) {
  const auto ref = make_ref_ops();
  for (const auto& [n, k] : {std::pair{16, 32}, {64, 64}, {63, 31}, {130, 50}, {200, 100}, {700, 300}, {40, 2100}}) {
    const Matrix values = on_grids(n, k, bits, random);
    const std::vector<float> bias(n % 2 == 0 ? static_cast<size_t>(n) : 0, 0.5F);
    const WeightSource source{{{"w", Scheme::kF32, values.row(0), n, k}}, bias};
    const auto packed = ops.pack(source);
    const auto plain = ref->pack(source);
    for (const int32_t rows : {1, 2, 5, 15, 16, 17, 33, 49}) {
      Matrix x(rows, k, rows % 7);
      x.fill_normal(random);
      for (int32_t r = 1; r < rows; r += 3) x.row(r)[k / 2] = 60;
      if (rows == 5 || rows == 33) std::fill_n(x.row(3), k, 0.0F);
      for (const auto& [row, factor] : {std::pair{4, 1e-24F}, {8, 1e30F}}) {
        for (int32_t c = 0; c < k && row < rows; ++c) x.row(row)[c] *= factor;
      }
      Matrix rounded = x;
      for (int32_t r = 0; r < rows && rounds_rows; ++r) round_groups(rounded, r, bits);
      Matrix got(rows, n, 3);
      got.fill_normal(random);
      Matrix want = got;
      const Store store = rows % 2 == 0 ? Store::kAdd : Store::kOverwrite;
      ops.linear(*packed, x.view(), store, got.view());
      ref->linear(*plain, rounded.view(), store, want.view());
      ASSERT_LT(worst_row_error(got, want), rounds_rows ? 5e-6 * std::sqrt(k) + 1e-5 : 0.03)
          << bits << ": " << n << " " << k << " " << rows;
      ASSERT_TRUE(got.guards_intact());
      if (store == Store::kOverwrite) expect_rows_alone(ops, *packed, x, got);
    }
  }
}

}  // namespace ashlar::conformance
