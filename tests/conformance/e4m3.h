// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights of E4M3 as files have them, and what their products must be, on whatever has them.

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support.h"

namespace ashlar::conformance {

/// A matrix of a file: any code but those of no numbers, with a scale for each block of rows and columns.
struct E4M3File {
  E4M3File(int64_t n, int64_t k, int64_t block_rows, int64_t block_cols, std::mt19937& random)
      : codes(static_cast<size_t>(n * k)) {
    for (std::byte& code : codes) {  // a few of them subnormal, the largest ones rare as in files
      const auto bits = static_cast<uint8_t>(random());
      code = static_cast<std::byte>((bits & 127) > 119 && random() % 8 != 0 ? bits - 16 : bits);
      if ((code & std::byte{127}) == std::byte{127}) code = std::byte{128};
    }
    matrix.rows = n;
    matrix.cols = k;
    matrix.numbers = SmallNumbers::in_rows(codes.data(), SmallNumbers::Kind::kE4M3, 8, k);
    matrix.scale_rows = block_rows;
    matrix.scale_cols = block_cols;
    scales.resize(static_cast<size_t>((n + block_rows - 1) / block_rows * matrix.groups()));
    for (float& scale : scales) scale = 0.001F * std::uniform_real_distribution<float>(1, 2)(random);
    matrix.scales.data = reinterpret_cast<const std::byte*>(scales.data());
    matrix.scales.col_stride = 4;
    matrix.scales.row_stride = 4 * matrix.groups();
  }
  std::vector<std::byte> codes;
  std::vector<float> scales;
  ScaledMatrix matrix;
};

/// Blocks of 128 x 128, of other shapes, one scale a row, one for all.
struct E4M3Shape {
  int32_t n, k;
  int64_t block_rows, block_cols;
};
inline constexpr E4M3Shape kE4M3Shapes[] = {{1, 1, 128, 128},   {3, 128, 128, 128},   {64, 64, 1, 64},
                                            {65, 100, 16, 128}, {130, 300, 128, 128}, {200, 256, 200, 256},
                                            {70, 520, 1, 520},  {300, 1030, 64, 256}, {40, 2100, 128, 128}};

/// Products are those of `ref` with the same weights, with rows rounded to bf16 first if the device does that, up to an
/// error of `most` + `max_a_root` sqrt(k); and a row has the same bits alone.
inline void expect_e4m3_products(Ops& ops, std::mt19937& random, bool rounds_rows, double most, double max_a_root) {
  const auto ref = make_ref_ops();
  for (const E4M3Shape& shape : kE4M3Shapes) {
    const auto& [n, k, block_rows, block_cols] = shape;
    const E4M3File file(n, k, block_rows, block_cols, random);
    const std::vector<float> bias(n % 2 == 0 ? static_cast<size_t>(n) : 0, 0.5F);
    const WeightSource source{{{"w", file.matrix}}, bias};
    const auto packed = ops.pack(source);
    const auto plain = ref->pack(source);
    ASSERT_EQ(packed->format(), "e4m3");
    for (const int32_t rows : {1, 2, 5, 8, 9, 16, 17, 33, 49, 140}) {
      Matrix x(rows, k, rows % 7);
      x.fill_normal(random);
      Matrix rounded = x;
      if (rounds_rows) rounded.round_to_bf16();
      Matrix got(rows, n, 3);
      got.fill_normal(random, Matrix::fills_with_bf16 ? 0.0F : 1.0F);  // there a sum with other numbers is rounded
      Matrix want = got;
      const Store store = rows % 2 == 0 ? Store::kAdd : Store::kOverwrite;
      ops.linear(*packed, x.view(), store, got.view());
      ref->linear(*plain, rounded.view(), store, want.view());
      ASSERT_LT(worst_row_error(got, want), most + max_a_root * std::sqrt(k)) << n << " " << k << " " << rows;
      ASSERT_TRUE(got.guards_intact());
      if (store == Store::kOverwrite) expect_rows_alone(ops, *packed, x, got);
    }
  }
}

}  // namespace ashlar::conformance
