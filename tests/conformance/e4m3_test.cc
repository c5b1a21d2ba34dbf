// SPDX-License-Identifier: Apache-2.0
// Weights of E4M3 with scales, as files have them and as others are rounded to, on every instruction set and on GPUs.
// Invariant: row-invariance.

#include "e4m3.h"

#include "support.h"

namespace ashlar::conformance {
namespace {

class E4M3Weights : public OnIsa {
 protected:
  std::unique_ptr<Ops> keeping(KeptWeights weights, int32_t threads = 2) const {
    DeviceOptions options;
    options.threads = threads;
    options.weights = weights;
    if (on_gpu()) return std::make_unique<StagedOps>(make_device("cuda", options));
    options.isa = GetParam();
    return make_device("cpu", options);
  }
  /// Rows of what is multiplied are rounded to bf16, once.
  bool rounds_rows() const { return on_gpu() || GetParam() == "amx"; }
  static std::vector<float> row_of(Ops& ops, const Weight& weight, int32_t r) {
    Matrix row(1, weight.k());
    ops.embed(weight, &r, 1, row.view());
    return {row.row(0), row.row(0) + weight.k()};
  }
};

TEST_P(E4M3Weights, AreThoseOfTheFile) {
  const auto ops = keeping(KeptWeights::kAuto);
  for (const E4M3Shape& shape : kE4M3Shapes) {
    const E4M3File file(shape.n, shape.k, shape.block_rows, shape.block_cols, random_);
    const auto packed = ops->pack({{{"w", file.matrix}}, {}});
    ASSERT_EQ(packed->format(), "e4m3");
    std::vector<float> want(static_cast<size_t>(shape.k));
    for (int32_t r = 0; r < shape.n; ++r) {
      file.matrix.decode(r, 0, shape.k, want.data());
      for (float& value : want) value = on_gpu() ? to_float(to_bf16(value)) : value;  // activations there
      ASSERT_TRUE(same_bits(row_of(*ops, *packed, r).data(), want.data(), shape.k)) << shape.n << " x " << shape.k;
    }
  }
}

TEST_P(E4M3Weights, MultiplyAsTheReferenceDoesAndEachRowAlone) {
  for (const int32_t threads : {1, 3}) {
    expect_e4m3_products(*keeping(KeptWeights::kAuto, threads), random_, rounds_rows(), bound(1e-5, 0.03), 5e-6);
  }
}

// Parts of a stack keep their numbers where all of them have such; a part of other numbers makes it bf16.
TEST_P(E4M3Weights, StackWithTheirLike) {
  const auto ops = keeping(KeptWeights::kAuto);
  const E4M3File blocks(96, 256, 128, 128, random_), rows(32, 256, 1, 256, random_), odd(32, 256, 32, 32, random_);
  const auto both = ops->pack({{{"a", blocks.matrix}, {"b", rows.matrix}}, {}});
  ASSERT_EQ(both->format(), "e4m3");
  std::vector<float> want(256);
  rows.matrix.decode(5, 0, 256, want.data());
  if (on_gpu()) std::transform(want.begin(), want.end(), want.begin(), [](float v) { return to_float(to_bf16(v)); });
  EXPECT_EQ(row_of(*ops, *both, 101), want);
  EXPECT_EQ(ops->pack({{{"a", blocks.matrix}, {"b", odd.matrix}}, {}})->format(), "bf16") << "a scale for 32 columns";
  EXPECT_EQ(ops->pack({{{"a", blocks.matrix}}, {}}, {.products = Products::kRoute})->format(), "f32");
  EXPECT_EQ(keeping(KeptWeights::kExact)->pack({{{"a", blocks.matrix}}, {}})->format(), "bf16");
  // Of one of two ranks.
  const WeightPart right = WeightPart("a", blocks.matrix).block(0, 96, 128, 128);
  EXPECT_EQ(ops->pack({{right}, {}})->format(), "e4m3");
  EXPECT_EQ(ops->pack({{WeightPart("a", blocks.matrix).block(0, 96, 64, 128)}, {}})->format(), "bf16");
}

TEST_P(E4M3Weights, GatedMlpsAndExpertsTakeThem) {
  const auto ref = make_ref_ops();
  const auto ops = keeping(KeptWeights::kAuto);
  for (const int32_t width : {70, 192}) {
    const int32_t k = 160;
    const E4M3File gate_up(2 * width, k, 128, 128, random_), down(k, width, 128, 128, random_);
    const WeightSource first{{{"w", gate_up.matrix}}, {}}, second{{{"w", down.matrix}}, {}};
    const ExpertSource expert[] = {{first, second}};
    const auto experts = ops->pack_experts(expert);
    for (const int32_t rows : {1, 5, 33}) {
      Matrix x(rows, k), got(rows, k), want(rows, k), mixed(rows, k);
      x.fill_normal(random_, 0.1F);
      for (Matrix* out : {&got, &want, &mixed}) {
        for (int32_t r = 0; r < rows; ++r) std::fill_n(out->row(r), k, 0.0F);
      }
      ops->gated_mlp(*ops->pack(first, {.gated = true}), *ops->pack(second), x.view(), got.view());
      ref->gated_mlp(*ref->pack(first, {.gated = true}), *ref->pack(second), x.view(), want.view());
      EXPECT_LT(worst_row_error(got, want), rounds_rows() ? 0.03 : 1e-4) << width << " " << rows;
      std::vector<int32_t> ids(static_cast<size_t>(rows));
      std::vector<float> ones(static_cast<size_t>(rows), 1);
      ops->mix_experts(*experts, x.view(), {1, ids.data(), ones.data()}, mixed.view());
      EXPECT_LT(worst_row_error(mixed, got), bound(1e-5, 0.02)) << width << " " << rows;
    }
  }
}

// Half a step, which is a sixteenth of a number or of the least normal one. The largest of 128 stay as they are.
TEST_P(E4M3Weights, RoundOthersToTheNearest) {
  const auto ops = keeping(KeptWeights::kFp8);
  const int32_t n = 96, k = 500;
  const Checkpoint checkpoint(Scheme::kF32, n, k, random_);
  const auto packed = ops->pack(checkpoint.source());
  ASSERT_EQ(packed->format(), "e4m3");
  EXPECT_EQ(ops->pack(checkpoint.source(), {.products = Products::kVocabulary})->format().substr(0, 4),
            GetParam() == "portable" ? "f32" : "int8");
  const auto* values = reinterpret_cast<const float*>(checkpoint.bytes.data());
  for (int32_t r = 0; r < n; ++r, values += k) {
    const std::vector<float> row = row_of(*ops, *packed, r);
    for (int32_t begin = 0; begin < k; begin += 128) {
      const int32_t end = std::min(begin + 128, k);
      float top = 0;
      for (int32_t c = begin; c < end; ++c) top = std::max(top, std::abs(values[c]));
      for (int32_t c = begin; c < end; ++c) {
        const float value = values[c], room = std::max(std::abs(value) / 16, top / 448 / 1024);
        ASSERT_NEAR(row[static_cast<size_t>(c)], value, room * bound(1.001, 1.1)) << r << " " << c;
        if (std::abs(value) < top) continue;
        ASSERT_NEAR(row[static_cast<size_t>(c)], value, top * bound(1e-6, 4e-3));
      }
    }
  }
}

TEST_P(E4M3Weights, WhatIsNoNumberInARowStaysNoneAndInItsRow) {
  const auto ops = keeping(KeptWeights::kAuto);
  const int32_t n = 40, k = 200;
  const E4M3File file(n, k, 128, 128, random_);
  const auto packed = ops->pack({{{"w", file.matrix}}, {}});
  Matrix x(4, k), got(4, n), clean(1, n);
  x.fill_normal(random_);
  x.row(0)[40] = NAN;
  x.row(1)[195] = INFINITY;
  x.row(2)[0] = -INFINITY;
  ops->linear(*packed, x.view(), Store::kOverwrite, got.view());
  ops->linear(*packed, x.view().part(3, 1), Store::kOverwrite, clean.view());
  for (int32_t c = 0; c < n; ++c) {
    for (int32_t r = 0; r < 3; ++r) EXPECT_FALSE(std::isfinite(got.row(r)[c])) << r << " " << c;
  }
  EXPECT_TRUE(same_bits(got.row(3), clean.row(0), n));
  EXPECT_TRUE(std::isfinite(got.row(3)[0]));
}

ASHLAR_FOR_EACH_ISA(E4M3Weights);

}  // namespace
}  // namespace ashlar::conformance
