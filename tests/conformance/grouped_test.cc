// SPDX-License-Identifier: Apache-2.0
// Products with weights in groups of 4 and 8 bits, on the instruction sets that have them and on GPUs, which hold such
// weights as near as bf16 does. Invariant: row-invariance.

#include "grouped.h"
#include "support.h"

namespace ashlar::conformance {
namespace {

struct Kept {
  KeptWeights weights;
  int32_t bits;
};
constexpr Kept kKept[] = {{KeptWeights::kInt8, 8}, {KeptWeights::kInt4, 4}};

class GroupedWeights : public OnIsa {
 protected:
  std::unique_ptr<Ops> keeping(KeptWeights weights, int32_t threads = 2) const {
    DeviceOptions options;
    options.threads = threads;
    options.weights = weights;
    if (on_gpu()) return std::make_unique<StagedOps>(make_device("cuda", options));
    options.isa = GetParam();
    return make_device("cpu", options);
  }
  /// Whether the path has the format.
  static bool has(Ops& ops) {
    const float one[64] = {};
    return ops.pack({{{"w", Scheme::kF32, one, 1, 64}}, {}})->format() != "f32";
  }
  std::mt19937 random_{11};
};

TEST_P(GroupedWeights, HoldWhatLiesOnTheirGridsExactly) {
  for (const auto& [weights, bits] : kKept) {
    const auto cpu = keeping(weights);
    if (!has(*cpu)) GTEST_SKIP() << GetParam() << " has no products of groups";
    for (const auto& [n, k] : {std::pair{1, 32}, {64, 64}, {65, 96}, {70, 333}}) {
      const Matrix values = on_grids(n, k, bits, random_);
      const auto packed = cpu->pack({{{"w", Scheme::kF32, values.row(0), n, k}}, {}});
      EXPECT_EQ(packed->format(), "int" + std::to_string(bits) + " groups");
      for (int32_t r = 0; r < n; ++r) {
        Matrix row(1, k);
        cpu->embed(*packed, &r, 1, row.view());
        for (int32_t c = 0; c < k; ++c)
          ASSERT_NEAR(row.row(0)[c], values.row(r)[c], bound(1e-6, bits == 8 ? 4e-3 : 1e-3))
              << bits << " " << r << " " << c;
      }
    }
  }
}

/// Numbers of 4 or 8 bits in rows, the middle one of which means 0, with a scale in f16 for each 128 of a row.
struct QuantisedFile {
  QuantisedFile(int64_t n, int64_t k, int32_t bits, std::mt19937& random)
      : codes(static_cast<size_t>(n * k * bits / 8)), scales(static_cast<size_t>(n * ((k + 127) / 128))) {
    std::normal_distribution<float> normal(0, 0.2F);
    const auto number = [&](int32_t middle) {  // most are far from the ends, as those of weights are
      const float value = std::round(normal(random) * static_cast<float>(middle));
      return middle +
             static_cast<int32_t>(std::clamp(value, static_cast<float>(1 - middle), static_cast<float>(middle - 1)));
    };
    for (std::byte& code : codes) {
      code = static_cast<std::byte>(bits == 8 ? number(128) : number(8) | number(8) << 4);
    }
    for (Float16& scale : scales) scale = to_f16(0.001F * std::exp(normal(random)));
    matrix.rows = n;
    matrix.cols = k;
    matrix.numbers = SmallNumbers::in_rows(codes.data(), SmallNumbers::Kind::kUnsigned, bits, k * bits / 8);
    matrix.zero = static_cast<float>(1 << (bits - 1));
    matrix.scale_cols = 128;
    matrix.scales.data = reinterpret_cast<const std::byte*>(scales.data());
    matrix.scales.type = Scales::Type::kF16;
    matrix.scales.col_stride = 2;
    matrix.scales.row_stride = 2 * matrix.groups();
  }
  std::vector<std::byte> codes;
  std::vector<Float16> scales;
  ScaledMatrix matrix;
};

// A group of 32 seldom has the least and the largest number of the 128 that share a scale.
TEST_P(GroupedWeights, KeepTheNumbersOfQuantisedFilesToTheBit) {
  const auto cpu = keeping(KeptWeights::kAuto);
  if (!has(*keeping(KeptWeights::kInt4))) GTEST_SKIP() << GetParam() << " has no products of groups";
  for (const int32_t bits : {4, 8}) {
    for (const auto& [n, k] : {std::pair{3, 128}, {65, 96}, {70, 320}}) {
      const QuantisedFile file(n, k, bits, random_);
      const auto packed = cpu->pack({{{"w", file.matrix}}, {}});
      EXPECT_EQ(packed->format(), "int" + std::to_string(bits) + " groups");
      std::vector<float> want(static_cast<size_t>(k));
      for (int32_t r = 0; r < n; ++r) {
        Matrix row(1, k);
        cpu->embed(*packed, &r, 1, row.view());
        file.matrix.decode(r, 0, k, want.data());
        const auto size = [](float a, float b) { return std::abs(a) < std::abs(b); };
        // A GPU multiplies with bf16, of 4 bits with scales in bf16.
        const float room = on_gpu() ? std::abs(*std::max_element(want.begin(), want.end(), size)) / 64 : 0;
        for (int32_t c = 0; c < k; ++c)
          ASSERT_NEAR(row.row(0)[c], want[static_cast<size_t>(c)], room) << bits << " " << r;
      }
    }
  }
}

TEST_P(GroupedWeights, MultiplyRoundedRowsExactly) {
  for (const auto& [weights, bits] : kKept) {
    for (const int32_t threads : {1, 3}) {
      const auto ops = keeping(weights, threads);
      if (!has(*ops)) GTEST_SKIP() << GetParam() << " has no products of groups";
      expect_grouped_products(*ops, bits, random_, !on_gpu());
    }
  }
}

// The sums of a group at their largest: what integers hold them must not run over.
TEST_P(GroupedWeights, SumsOfAGroupFit) {
  for (const auto& [weights, bits] : kKept) {
    const auto cpu = keeping(weights);
    if (!has(*cpu)) GTEST_SKIP() << GetParam() << " has no products of groups";
    const int32_t n = 20, k = 640;
    for (const float sign : {1.0F, -1.0F}) {
      Matrix values(n, k, 0);
      for (int32_t r = 0; r < n; ++r) {
        for (int32_t c = 0; c < k; ++c) values.row(r)[c] = c % kGroup == 0 ? 0 : 15.0F / 16;
      }
      const auto packed = cpu->pack({{{"w", Scheme::kF32, values.row(0), n, k}}, {}});
      const float want = sign * 127 * 15 / 16 * k * 31 / 32;
      for (const int32_t rows : {1, 16, 33}) {
        Matrix x(rows, k), out(rows, n);
        for (int32_t r = 0; r < rows; ++r) std::fill_n(x.row(r), k, sign * 127);
        cpu->linear(*packed, x.view(), Store::kOverwrite, out.view());
        for (int32_t c = 0; c < n; ++c) EXPECT_NEAR(out.row(rows - 1)[c], want, 1e-3F * std::abs(want)) << bits;
      }
    }
  }
}

// Other weights lose no more than rounding to the grid between a group's extremes does, in squares.
TEST_P(GroupedWeights, RoundOthersWell) {
  for (const auto& [weights, bits] : kKept) {
    const auto cpu = keeping(weights);
    if (!has(*cpu)) GTEST_SKIP() << GetParam() << " has no products of groups";
    const int32_t n = 96, k = 512;
    const Checkpoint checkpoint(Scheme::kF32, n, k, random_);
    const auto packed = cpu->pack(checkpoint.source());
    const auto* values = reinterpret_cast<const float*>(checkpoint.bytes.data());
    double lost = 0, naive = 0;
    for (int32_t r = 0; r < n; ++r, values += k) {
      Matrix row(1, k);
      cpu->embed(*packed, &r, 1, row.view());
      for (int32_t begin = 0; begin < k; begin += kGroup) {
        const auto [low, high] = std::minmax_element(values + begin, values + begin + kGroup);
        const float top = std::max(std::abs(*low), std::abs(*high));
        const float from = bits == 4 ? *low : -top, step = bits == 4 ? (*high - *low) / 15 : top / 127;
        for (int32_t c = begin; c < begin + kGroup; ++c) {
          const float on_grid = from + step * std::nearbyint((values[c] - from) / step);
          lost += std::pow(row.row(0)[c] - values[c], 2);
          naive += std::pow(on_grid - values[c], 2);
        }
      }
    }
    EXPECT_LT(lost, bound(1.02, bits == 8 ? 1.12 : 1.02) * naive) << bits;
    if (bits == 4) {
      EXPECT_LT(lost, 0.95 * naive);
    }
  }
}

TEST_P(GroupedWeights, WhatIsNoNumberInARowStaysNoneAndInItsRow) {
  for (const auto& [weights, bits] : kKept) {
    const auto cpu = keeping(weights);
    if (!has(*cpu)) GTEST_SKIP() << GetParam() << " has no products of groups";
    const int32_t n = 40, k = 96;
    const Matrix values = on_grids(n, k, bits, random_);
    const auto packed = cpu->pack({{{"w", Scheme::kF32, values.row(0), n, k}}, {}});
    for (const int32_t rows : {4, 7, 21}) {
      Matrix x(rows, k), got(rows, n), clean(1, n);
      x.fill_normal(random_);
      x.row(0)[40] = NAN;
      x.row(1)[95] = INFINITY;
      x.row(2)[0] = -INFINITY;
      cpu->linear(*packed, x.view(), Store::kOverwrite, got.view());
      cpu->linear(*packed, x.view().part(3, 1), Store::kOverwrite, clean.view());
      for (int32_t c = 0; c < n; ++c) {
        for (int32_t r = 0; r < 3; ++r) EXPECT_FALSE(std::isfinite(got.row(r)[c])) << bits << " " << r << " " << c;
      }
      EXPECT_TRUE(same_bits(got.row(3), clean.row(0), n));
      EXPECT_TRUE(std::isfinite(got.row(3)[0]));
    }
  }
}

TEST_P(GroupedWeights, GatedMlpsAndExpertsTakeThem) {
  const auto ref = make_ref_ops();
  for (const auto& [weights, bits] : kKept) {
    const auto cpu = keeping(weights);
    if (!has(*cpu)) GTEST_SKIP() << GetParam() << " has no products of groups";
    const int32_t width = 70, k = 96;
    const Matrix gate_up = on_grids(2 * width, k, bits, random_), down = on_grids(k, width, bits, random_);
    const WeightSource first{{{"w", Scheme::kF32, gate_up.row(0), 2 * width, k}}, {}};
    const WeightSource second{{{"w", Scheme::kF32, down.row(0), k, width}}, {}};
    const ExpertSource expert[] = {{first, second}};
    const auto experts = cpu->pack_experts(expert);
    for (const int32_t rows : {5, 40}) {
      Matrix x(rows, k), got(rows, k), want(rows, k), mixed(rows, k);
      x.fill_normal(random_);
      for (Matrix* out : {&got, &want, &mixed}) {
        for (int32_t r = 0; r < rows; ++r) std::fill_n(out->row(r), k, 0.0F);
      }
      cpu->gated_mlp(*cpu->pack(first, {.gated = true}), *cpu->pack(second), x.view(), got.view());
      ref->gated_mlp(*ref->pack(first, {.gated = true}), *ref->pack(second), x.view(), want.view());
      EXPECT_LT(worst_row_error(got, want), bound(bits == 8 ? 5e-3 : 2e-3, 0.03)) << bits;  // rows are rounded twice
      std::vector<int32_t> ids(static_cast<size_t>(rows));
      std::vector<float> ones(static_cast<size_t>(rows), 1.0F);
      cpu->mix_experts(*experts, x.view(), {1, ids.data(), ones.data()}, mixed.view());
      EXPECT_LT(worst_row_error(mixed, got), bound(1e-5, 0.02)) << bits;
    }
  }
}

ASHLAR_FOR_EACH_ISA(GroupedWeights);

}  // namespace
}  // namespace ashlar::conformance
