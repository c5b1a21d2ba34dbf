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

/// The product is that of weights with 127 levels a column and rows with 127 * 128, whatever the shape; each row alone
/// has the bits it has among others; the highest column is that of the product.
inline void expect_quantised_products(Ops& ops, std::mt19937& random) {
  const auto ref = make_ref_ops();
  int cases = 0;
  for (const auto& [n, k] : {std::pair{1, 1}, {64, 64}, {63, 31}, {65, 65}, {130, 50}, {200, 100}, {700, 257}}) {
    const Checkpoint checkpoint(DType::kBF16, n, k, random);
    const std::vector<HostTensor> parts{checkpoint.view()};
    std::vector<float> bias(n % 2 == 0 ? static_cast<size_t>(n) : 0, 0.5F);
    const auto weight = ops.pack(parts, bias);
    const auto quantised = ops.quantise(*weight);
    ASSERT_NE(quantised, nullptr);
    EXPECT_EQ(quantised->n(), n);
    EXPECT_EQ(quantised->k(), k);
    Matrix levels(n, k, 0);
    for (int32_t c = 0; c < n; ++c) {
      ops.embed(*weight, &c, 1, {levels.row(c), 1, k, k});
      round_to_levels(levels, c, 127);
    }
    const std::vector<HostTensor> rounded{{"w", DType::kF32, levels.row(0), n, k}};
    const auto plain = ref->pack(rounded, bias);
    for (int32_t rows : {1, 2, 7, 15, 16, 17, 31, 33, 49}) {
      Matrix x(rows, k, cases % 7);
      x.fill_normal(random);
      if (rows == 7) std::fill_n(x.row(3), k, 0.0F);
      Matrix rounded_rows = x;
      for (int32_t r = 0; r < rows; ++r) round_to_levels(rounded_rows, r, 127 * 128);
      Matrix got(rows, n, 3);
      got.fill_normal(random);
      Matrix want = got;
      const Store store = rows % 2 == 0 ? Store::kAdd : Store::kOverwrite;
      ops.linear(*quantised, x.view(), store, got.view());
      ref->linear(*plain, rounded_rows.view(), store, want.view());
      ASSERT_LT(worst_row_error(got, want), 5e-6 * std::sqrt(k) + 1e-5) << n << " " << k << " " << rows;
      ASSERT_TRUE(got.guards_intact());
      ++cases;
      if (store == Store::kAdd) continue;
      Matrix alone(1, n);
      Matrix one(1, k);
      std::vector<int32_t> ids(static_cast<size_t>(rows));
      ops.linear_argmax(*quantised, x.view(), ids.data());
      for (int32_t r = 0; r < rows; ++r) {
        std::copy_n(x.row(r), k, one.row(0));
        ops.linear(*quantised, one.view(), Store::kOverwrite, alone.view());
        ASSERT_TRUE(same_bits(alone.row(0), got.row(r), n)) << n << " " << k << " row " << r << " of " << rows;
        ASSERT_EQ(ids[static_cast<size_t>(r)], std::max_element(got.row(r), got.row(r) + n) - got.row(r));
      }
    }
  }
}

}  // namespace ashlar::conformance
