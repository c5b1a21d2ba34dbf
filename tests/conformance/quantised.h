// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is asked of products with weights of 8 bits, shared by the instruction sets that have them and by emulated
// tiles.

#include "support.h"

namespace ashlar::conformance {

/// Rounds row r of `values` to `levels` steps of its largest magnitude, in place. In floats: bf16 values often lie
/// halfway.
inline void round_to_levels(Matrix& values, int32_t r, float levels) {
  float top = 0;
  for (int32_t c = 0; c < values.cols(); ++c) top = std::max(top, std::abs(values.row(r)[c]));
  if (top == 0) return;
  for (int32_t c = 0; c < values.cols(); ++c) {
    values.row(r)[c] = std::nearbyint(values.row(r)[c] * (levels / top)) * (top / levels);
  }
}

/// Rounds row r as products with 8-bit weights do: to 127 levels, or to 127 * 128 if a value is above 16 times the root
/// mean square. AVX2, which multiplies 16 bits, has 127 * 128 for all rows.
inline void round_row(Matrix& values, int32_t r, const Ops& ops) {
  double top = 0;
  double squares = 0;
  for (int32_t c = 0; c < values.cols(); ++c) {
    const double value = values.row(r)[c];
    top = std::max(top, std::abs(value));
    squares += value * value;
  }
  const bool outlier = top * top * values.cols() > 16.0 * 16.0 * squares;
  round_to_levels(values, r, outlier || ops.isa() == "avx2" ? 127 * 128 : 127);
}

/// The product is that of weights with 127 levels a column and rounded rows, whatever the shape; each row alone has the
/// bits it has among others; the highest column is that of the product.
inline void expect_quantised_products(Ops& ops, std::mt19937& random) {
  const auto ref = make_ref_ops();
  int cases = 0;
  for (const auto& [n, k] :
       {std::pair{1, 1}, {64, 64}, {63, 31}, {65, 65}, {130, 50}, {200, 100}, {700, 300}, {70, 1000}, {40, 2100}}) {
    const Checkpoint checkpoint(Scheme::kBF16, n, k, random);
    std::vector<float> bias(n % 2 == 0 ? static_cast<size_t>(n) : 0, 0.5F);
    const auto weight = ops.pack(checkpoint.source(bias));
    const auto quantised = ops.pack(checkpoint.source(bias), {.products = Products::kPropose});
    const auto repacked = ops.repack(*weight, Products::kPropose);
    ASSERT_EQ(weight->format(), "bf16");
    ASSERT_EQ(quantised->format(), "int8");
    ASSERT_NE(repacked, nullptr);
    EXPECT_EQ(ops.repack(*quantised, Products::kPropose), nullptr);
    EXPECT_EQ(quantised->n(), n);
    EXPECT_EQ(quantised->k(), k);
    Matrix levels(n, k, 0);
    for (int32_t c = 0; c < n; ++c) {
      ops.embed(*weight, &c, 1, {levels.row(c), 1, k, k});
      round_to_levels(levels, c, 127);
      Matrix row(1, k);
      ops.embed(*quantised, &c, 1, row.view());
      for (int32_t i = 0; i < k; ++i) ASSERT_NEAR(row.row(0)[i], levels.row(c)[i], 1e-6) << n << " " << k;
    }
    const auto plain = ref->pack({{{"w", Scheme::kF32, levels.row(0), n, k}}, bias});
    for (int32_t rows : {1, 2, 7, 15, 16, 17, 31, 33, 48, 49}) {
      Matrix x(rows, k, cases % 7);
      x.fill_normal(random);
      for (int32_t r = 1; r < rows; r += rows % 3 + 1) x.row(r)[k / 2] = 60;
      if (rows == 7) std::fill_n(x.row(3), k, 0.0F);
      for (int32_t r = 0; rows % 16 == 0 && r < rows; ++r) x.row(r)[r % k] = -60;
      Matrix rounded_rows = x;
      for (int32_t r = 0; r < rows; ++r) round_row(rounded_rows, r, ops);
      Matrix got(rows, n, 3);
      got.fill_normal(random);
      Matrix want = got;
      const Store store = rows % 2 == 0 ? Store::kAdd : Store::kOverwrite;
      ops.linear(*quantised, x.view(), store, got.view());
      ref->linear(*plain, rounded_rows.view(), store, want.view());
      ASSERT_LT(worst_row_error(got, want), 5e-6 * std::sqrt(k) + 1e-5) << n << " " << k << " " << rows;
      ASSERT_TRUE(got.guards_intact());
      if (store == Store::kOverwrite) {
        ops.linear(*repacked, x.view(), store, want.view());
        for (int32_t r = 0; r < rows; ++r) ASSERT_TRUE(same_bits(got.row(r), want.row(r), n)) << n << " " << k;
      }
      ++cases;
      if (store == Store::kOverwrite) expect_rows_alone(ops, *quantised, x, got);
    }
  }
}

/// What `got` is away from `want`, to what `want` is away from `before`: over all elements, root mean squares.
inline double added_error(const Matrix& got, const Matrix& want, const Matrix& before) {
  double errors = 0;
  double changes = 0;
  for (int32_t r = 0; r < want.rows(); ++r) {
    for (int32_t c = 0; c < want.cols(); ++c) {
      errors += std::pow(got.row(r)[c] - want.row(r)[c], 2);
      changes += std::pow(want.row(r)[c] - before.row(r)[c], 2);
    }
  }
  return std::sqrt(errors / changes);
}

/// A gated MLP of 8-bit weights, also with weights of 16 bits in one of its places, is near that of exact ones; each
/// row alone has the bits it has among others.
inline void expect_quantised_gated_mlp(Ops& ops, std::mt19937& random) {
  const auto ref = make_ref_ops();
  for (const auto& [width, k] : {std::pair{1, 1}, {32, 32}, {70, 45}, {200, 400}}) {
    const Checkpoint weight(Scheme::kBF16, 2 * width, k, random);
    const Checkpoint back(Scheme::kBF16, k, width, random);
    const std::vector<float> bias(static_cast<size_t>(2 * width), 0.25F);
    const auto exact_gate_up = ops.pack(weight.source(bias), {.gated = true});
    const auto exact_down = ops.pack(back.source());
    const auto gate_up = ops.repack(*exact_gate_up, Products::kPropose);
    const auto quantised_down = ops.pack(back.source(), {.products = Products::kPropose});
    ASSERT_NE(gate_up, nullptr);
    EXPECT_EQ(gate_up->format(), "int8");
    EXPECT_EQ(gate_up->n(), 2 * width);
    const auto plain = ref->pack(weight.source(bias), {.gated = true});
    const auto plain_down = ref->pack(back.source());
    for (int32_t rows : {1, 7, 16, 17, 49}) {
      Matrix x(rows, k);
      x.fill_normal(random, 1.0F / std::sqrt(static_cast<float>(k)));
      for (int32_t r = 1; r < rows; r += 3) x.row(r)[k / 2] *= 60;
      Matrix before(rows, k, 3);
      before.fill_normal(random);
      Matrix want = before;
      ref->gated_mlp(*plain, *plain_down, x.view(), want.view());
      for (const auto& [first, second] : {std::pair{gate_up.get(), quantised_down.get()},
                                          {gate_up.get(), exact_down.get()},
                                          {exact_gate_up.get(), quantised_down.get()}}) {
        Matrix got = before;
        Matrix alone = before;
        ops.gated_mlp(*first, *second, x.view(), got.view());
        ASSERT_LT(added_error(got, want, before), 0.06) << width << " " << k << " " << rows;
        ASSERT_TRUE(got.guards_intact());
        for (int32_t r = 0; r < rows; ++r) {
          ops.gated_mlp(*first, *second, Tensor{x.row(r), 1, k, x.view().stride},
                        {alone.row(r), 1, k, alone.view().stride});
          ASSERT_TRUE(same_bits(alone.row(r), got.row(r), k)) << r << " of " << rows;
        }
      }
    }
  }
}

}  // namespace ashlar::conformance
