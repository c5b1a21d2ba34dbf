// SPDX-License-Identifier: Apache-2.0
// A layer's products on two ranks, one after the other on one device: each with its share of the weights, and the
// partial results summed.

#include "device/weights/shard.h"
#include "support.h"

namespace ashlar::conformance {
namespace {

constexpr auto kOutputs = Shard::Axis::kOutputs;
constexpr auto kInputs = Shard::Axis::kInputs;
constexpr int32_t kWorld = 2;
constexpr int32_t kHidden = 70;
constexpr int32_t kShardedWidth = 96;

std::vector<float> some_bias(int64_t n) {
  std::vector<float> bias(static_cast<size_t>(n));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.25F * static_cast<float>(i % 5) - 0.5F;
  return bias;
}

/// What becomes of `before` when the partials of both ranks are added: by the ops, which must give the bits of the sums
/// written out.
Matrix reduced(Ops& ops, Matrix partials[kWorld], const Matrix& before) {
  Matrix residual = before;
  const auto rounded = [&](float value) {
    return ops.activation_type() == DType::kBF16 ? to_float(to_bf16(value)) : value;
  };
  Matrix sum = partials[0];
  ops.reduce_add(partials[1].view(), sum.view());
  ops.reduce_add(sum.view(), residual.view());
  for (int32_t r = 0; r < before.rows(); ++r) {
    std::vector<float> want(static_cast<size_t>(before.cols()));
    for (int32_t c = 0; c < before.cols(); ++c) {
      const float both = rounded(rounded(partials[0].row(r)[c]) + rounded(partials[1].row(r)[c]));
      want[static_cast<size_t>(c)] = rounded(before.row(r)[c] + both);
    }
    EXPECT_TRUE(same_bits(residual.row(r), want.data(), before.cols()));
  }
  EXPECT_TRUE(residual.guards_intact());
  return residual;
}

void expect_ranks_make_the_whole(Ops& ops, Scheme scheme, std::mt19937& random) {
  for (const int32_t rows : {1, 5, 17}) {
    Matrix x(rows, kHidden);
    x.fill_normal(random);
    Matrix before(rows, kHidden, 3);
    before.fill_normal(random);

    // Queries, keys and values: a rank's columns are those of the whole, bit for bit.
    const Checkpoint q(scheme, 64, kHidden, random), k(scheme, 32, kHidden, random), v(scheme, 32, kHidden, random);
    const WeightSource qkv{{q.part(0, 64), k.part(0, 32), v.part(0, 32)}, some_bias(128)};
    Matrix projected(rows, 128);
    ops.linear(*ops.pack(qkv), x.view(), Store::kOverwrite, projected.view());
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      Matrix mine(rows, 64);
      ops.linear(*ops.pack(cut(qkv, {rank, kWorld, kOutputs})), x.view(), Store::kOverwrite, mine.view());
      for (int32_t r = 0; r < rows; ++r) {
        EXPECT_TRUE(same_bits(mine.row(r), projected.row(r) + 32 * rank, 32)) << "queries of " << rank;
        EXPECT_TRUE(same_bits(mine.row(r) + 32, projected.row(r) + 64 + 16 * rank, 16)) << "keys of " << rank;
        EXPECT_TRUE(same_bits(mine.row(r) + 48, projected.row(r) + 96 + 16 * rank, 16)) << "values of " << rank;
      }
    }

    // What leaves the attention, cut along what enters it.
    const Checkpoint back(scheme, kHidden, 64, random);
    const WeightSource output = back.source(some_bias(kHidden));
    const Tensor mixed = projected.view().columns(0, 64);
    Matrix partials[kWorld] = {Matrix(rows, kHidden), Matrix(rows, kHidden)};
    Matrix want = before;
    ops.linear(*ops.pack(output), mixed, Store::kAdd, want.view());
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      ops.linear(*ops.pack(cut(output, {rank, kWorld, kInputs})), mixed.columns(32 * rank, 32), Store::kOverwrite,
                 partials[rank].view());
    }
    EXPECT_LT(worst_added_error(reduced(ops, partials, before), want, before),
              ops.activation_type() == DType::kBF16 ? 1.0 / 16 : 1e-5);

    // The MLP: gates and ups by outputs, down by inputs.
    const Checkpoint gate(scheme, kShardedWidth, kHidden, random), up(scheme, kShardedWidth, kHidden, random);
    const Checkpoint down(scheme, kHidden, kShardedWidth, random);
    const WeightSource gate_up{{gate.part(0, kShardedWidth), up.part(0, kShardedWidth)}, some_bias(2 * kShardedWidth)};
    want = before;
    ops.gated_mlp(*ops.pack(gate_up, {.gated = true}), *ops.pack(down.source()), x.view(), want.view());
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      for (int32_t r = 0; r < rows; ++r) std::fill_n(partials[rank].row(r), kHidden, 0.0F);
      ops.gated_mlp(*ops.pack(cut(gate_up, {rank, kWorld, kOutputs}), {.gated = true}),
                    *ops.pack(cut(down.source(), {rank, kWorld, kInputs})), x.view(), partials[rank].view());
    }
    EXPECT_LT(worst_added_error(reduced(ops, partials, before), want, before),
              ops.activation_type() == DType::kBF16 ? 1.0 / 16 : 1e-5);
  }
}

/// Ops that add are products to a partial, and then reduce_add.
void expect_fused_ops_reduce(Ops& ops, Scheme scheme, std::mt19937& random) {
  const Checkpoint weight(scheme, kHidden, kHidden, random);
  const Checkpoint gated(scheme, 2 * kShardedWidth, kHidden, random);
  const Checkpoint back(scheme, kHidden, kShardedWidth, random);
  const auto square = ops.pack(weight.source(some_bias(kHidden)));
  const auto gate_up = ops.pack(gated.source(), {.gated = true});
  const auto down = ops.pack(back.source(some_bias(kHidden)));
  for (const int32_t rows : {1, 6, 40}) {
    Matrix x(rows, kHidden), before(rows, kHidden, 3);
    x.fill_normal(random);
    before.fill_normal(random);
    const auto compare = [&](const auto& fused, const auto& partial) {
      Matrix got = before, want = before, product(rows, kHidden);
      for (int32_t r = 0; r < rows; ++r) std::fill_n(product.row(r), kHidden, 0.0F);
      fused(got.view());
      partial(product.view());
      ops.reduce_add(product.view(), want.view());
      for (int32_t r = 0; r < rows; ++r)
        EXPECT_TRUE(same_bits(got.row(r), want.row(r), kHidden)) << r << " of " << rows;
    };
    compare([&](Tensor out) { ops.linear(*square, x.view(), Store::kAdd, out); },
            [&](Tensor out) { ops.linear(*square, x.view(), Store::kOverwrite, out); });
    const auto mlp = [&](Tensor out) { ops.gated_mlp(*gate_up, *down, x.view(), out); };
    compare(mlp, mlp);
  }
}

class Sharded : public OnIsa {};

TEST_P(Sharded, RanksMakeTheWhole) {
  for (const Scheme scheme : {Scheme::kF32, Scheme::kBF16}) expect_ranks_make_the_whole(*make(), scheme, random_);
}

TEST_P(Sharded, FusedOpsReduce) {
  for (const Scheme scheme : {Scheme::kF32, Scheme::kBF16}) expect_fused_ops_reduce(*make(), scheme, random_);
}

ASHLAR_FOR_EACH_ISA(Sharded);

TEST(ShardedOnRef, RanksMakeTheWhole) {
  std::mt19937 random(5);
  for (const Scheme scheme : {Scheme::kF32, Scheme::kF16}) {
    expect_ranks_make_the_whole(*make_ref_ops(), scheme, random);
    expect_fused_ops_reduce(*make_ref_ops(), scheme, random);
  }
}

}  // namespace
}  // namespace ashlar::conformance
