// SPDX-License-Identifier: Apache-2.0
// The tile kernels on emulated tiles: their packing, indexing and tails are checked on machines without AMX too.

#include "cache.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/linear/packed_weight.h"
#include "e4m3.h"
#include "emulated_tiles.h"
#include "grouped.h"
#include "quantised.h"
#include "support.h"
#include "tree.h"

namespace ashlar::conformance {
namespace {

namespace emulated = cpu::amx_emulated;

void run(const cpu::PackedWeight& weight, Matrix& x, Store store, Matrix& out) {
  cpu::LinearCall call;
  call.weight = weight.panel(0);
  call.panels = weight.panels();
  call.columns = weight.n();
  call.k = weight.k();
  call.bias = weight.bias();
  call.rows = x.rows();
  call.blocks = (x.rows() + emulated::kTileRows - 1) / emulated::kTileRows;
  call.last_block = call.blocks;
  call.packed_block = emulated::tile_packed_bytes(call.k);
  std::vector<std::byte> packed(static_cast<size_t>(call.packed_block * call.blocks), std::byte{0x7F});
  for (int32_t b = 0; b < call.blocks; ++b) {
    emulated::tile_pack(x.row(call.block_row(b)), x.view().stride, call.block_row(b + 1) - call.block_row(b), call.k,
                        packed.data() + b * call.packed_block);
  }
  call.packed = packed.data();
  call.out = out.view().row(0);
  call.out_stride = out.view().stride;
  call.add = store == Store::kAdd;
  emulated::tile_linear(call);
}

TEST(AmxEmulated, LinearMatchesReferenceOnRoundedRows) {
  std::mt19937 random(7);
  const auto ref = make_ref_ops();
  for (const auto& [n, k] :
       {std::pair{1, 1}, {64, 64}, {63, 31}, {65, 33}, {130, 50}, {200, 100}, {16, 129}, {70, 257}, {330, 600}}) {
    const Checkpoint checkpoint(Scheme::kBF16, n, k, random);
    std::vector<float> bias(static_cast<size_t>(n), 0.5F);
    const auto packed = cpu::CpuOps(cpu::portable_kernels(), 1, KvDType::kBF16).pack(checkpoint.source(bias));
    const auto& weight = own_weight<cpu::PackedWeight>(*packed);
    const auto plain = ref->pack(checkpoint.source(bias));
    for (int32_t rows : {1, 2, 7, 15, 16, 17, 31, 33, 49, 84}) {
      Matrix x(rows, k);
      x.fill_normal(random);
      Matrix rounded = x;
      rounded.round_to_bf16();
      Matrix got(rows, n);
      got.fill_normal(random);
      Matrix want = got;
      const Store store = rows % 2 == 0 ? Store::kAdd : Store::kOverwrite;
      run(weight, x, store, got);
      ref->linear(*plain, rounded.view(), store, want.view());
      for (int32_t r = 0; r < rows; ++r) {
        for (int32_t c = 0; c < n; ++c) ASSERT_NEAR(got.row(r)[c], want.row(r)[c], 1e-5 * k + 1e-5) << n << " " << k;
      }
      ASSERT_TRUE(got.guards_intact());
      Matrix alone(1, n);
      Matrix one(1, k);
      for (int32_t r = 0; r < rows && store == Store::kOverwrite; ++r) {
        std::copy_n(x.row(r), k, one.row(0));
        run(weight, one, store, alone);
        ASSERT_TRUE(same_bits(alone.row(0), got.row(r), n));
      }
    }
  }
}

// The portable device with 8-bit products on emulated tiles.
TEST(AmxEmulated, QuantisedProductsAreThoseOfRoundedWeightsAndRows) {
  cpu::Kernels kernels = cpu::portable_kernels();
  kernels.quantised = {emulated::quantised_linear, emulated::kTileRows, 1, emulated::quantised_packed_bytes,
                       emulated::quantised_pack};
  cpu::CpuOps ops(kernels, 1, KvDType::kBF16);
  std::mt19937 random(13);
  expect_quantised_products(ops, random);
}

// The same with 16-bit products there too, whose gated MLP takes another way.
TEST(AmxEmulated, QuantisedGatedMlpIsNearExactOne) {
  cpu::Kernels kernels = cpu::portable_kernels();
  kernels.bf16 = {emulated::tile_linear, emulated::kTileRows, 1, emulated::tile_packed_bytes, emulated::tile_pack};
  kernels.bf16.gated_pack = emulated::gated_pack;
  kernels.quantised = {emulated::quantised_linear, emulated::kTileRows, 1, emulated::quantised_packed_bytes,
                       emulated::quantised_pack};
  cpu::CpuOps ops(kernels, 1, KvDType::kBF16);
  std::mt19937 random(19);
  expect_quantised_gated_mlp(ops, random);
}

// The portable device with products of groups on emulated tiles.
TEST(AmxEmulated, GroupedProductsAreThoseOfRoundedRows) {
  cpu::Kernels kernels = cpu::portable_kernels();
  kernels.groups8 = {emulated::multiply_groups<8>, emulated::kTileRows, 1, emulated::packed_group_bytes,
                     emulated::pack_groups<8>};
  kernels.groups4 = {emulated::multiply_groups<4>, emulated::kTileRows, 1, emulated::packed_group_bytes,
                     emulated::pack_groups<4>};
  kernels.groups8.pack_several = emulated::wide_pack<8>;
  kernels.groups4.pack_several = emulated::wide_pack<4>;
  std::mt19937 random(23);
  for (const auto& [kept, bits] : {std::pair{KeptWeights::kInt8, 8}, {KeptWeights::kInt4, 4}}) {
    cpu::CpuOps ops(kernels, 1, KvDType::kBF16, kept);
    expect_grouped_products(ops, bits, random, true);
  }
}

// The portable device with products of E4M3 on emulated tiles.
TEST(AmxEmulated, E4M3ProductsAreThoseOfRoundedRows) {
  cpu::Kernels kernels = cpu::portable_kernels();
  kernels.e4m3 = {emulated::e4m3_tile_linear, emulated::kTileRows, 1, emulated::tile_packed_bytes, emulated::tile_pack};
  std::mt19937 random(29);
  cpu::CpuOps ops(kernels, 1, KvDType::kBF16);
  expect_e4m3_products(ops, random, true, 1e-5, 5e-6);
}

// The portable device with both products of a gated MLP on emulated tiles: the activation goes from one to the other as
// packed rows.
TEST(AmxEmulated, GatedMlpMatchesReference) {
  cpu::Kernels kernels = cpu::portable_kernels();
  kernels.bf16 = {emulated::tile_linear, emulated::kTileRows, 1, emulated::tile_packed_bytes, emulated::tile_pack};
  kernels.bf16.gated_pack = emulated::gated_pack;
  const auto ref = make_ref_ops();
  std::mt19937 random(17);
  cpu::CpuOps ops(kernels, 1, KvDType::kBF16);
  for (const auto& [width, k] : {std::pair{1, 1}, {32, 32}, {70, 45}, {200, 33}}) {
    const Checkpoint weight(Scheme::kBF16, 2 * width, k, random);
    const Checkpoint back(Scheme::kBF16, k, width, random);
    std::vector<float> bias(static_cast<size_t>(2 * width));
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1F * static_cast<float>(i % 7) - 0.2F;
    for (int32_t rows : {1, 15, 16, 17, 31, 33, 49, 81, 97}) {
      Matrix x(rows, k);
      x.fill_normal(random, 1.0F / std::sqrt(static_cast<float>(k)));
      x.round_to_bf16();
      Matrix got(rows, k, 3);
      got.fill_normal(random);
      const Matrix before = got;
      Matrix want = got;
      Matrix alone = got;
      const auto gate_up = ops.pack(weight.source(bias), {.gated = true});
      const auto packed_down = ops.pack(back.source());
      ops.gated_mlp(*gate_up, *packed_down, x.view(), got.view());
      ref->gated_mlp(*ref->pack(weight.source(bias), {.gated = true}), *ref->pack(back.source()), x.view(),
                     want.view());
      ASSERT_LT(worst_added_error(got, want, before), 2e-2) << width << " " << k << " " << rows;
      ASSERT_TRUE(got.guards_intact());
      for (int32_t r = 0; r < rows; ++r) {
        ops.gated_mlp(*gate_up, *packed_down, Tensor{x.row(r), 1, k, x.view().stride},
                      {alone.row(r), 1, k, alone.view().stride});
        ASSERT_TRUE(same_bits(alone.row(r), got.row(r), k)) << r << " of " << rows;
      }
    }
  }
}

// The portable device with attention on emulated tiles.
TEST(AmxEmulated, AttentionMatchesReference) {
  cpu::Kernels kernels = cpu::portable_kernels();
  kernels.pack_queries = emulated::pack_query_tiles;
  kernels.attend = emulated::attend_tiles;
  std::mt19937 random(11);
  const std::vector<int32_t> lengths{13, 48, 300};
  const AttentionShape four{4, 2, 64, 0.125F}, eight{8, 1, 32, 0.2F}, three{3, 3, 96, 0.1F};
  const std::vector<std::pair<AttentionShape, KvDType>> cases = {
      {four, KvDType::kBF16}, {eight, KvDType::kBF16}, {three, KvDType::kBF16}, {four, KvDType::kInt8},
      {four, KvDType::kTq4},  {eight, KvDType::kTq4},  {three, KvDType::kInt8}};
  for (const auto& [shape, kv] : cases) {
    cpu::CpuOps ops(kernels, 1, kv);
    const auto ref = make_ref_ops(kv);
    const double bound = kv_codec(kv) != nullptr ? 1.0 / 64 : 5e-5;  // codes become bf16
    const IdentityRope rope(shape.head_dim, 320);
    Cache on_tiles(ops, shape, lengths, 5);
    Cache on_ref(*ref, shape, lengths, 6);
    fill_alike(on_tiles, on_ref, shape, lengths, rope.table, random);
    std::vector<Row> rows;
    for (int32_t p = 0; p < 13; ++p) rows.push_back({0, p, 0, p + 1});
    for (int32_t p = 32; p < 48; ++p) rows.push_back({1, p, 0, 48});
    for (int32_t p = 280; p < 300; ++p) rows.push_back({2, p, p - 30, p + 1});
    rows.push_back({2, 299, 17, 31});
    rows.push_back({2, 299, 40, 40});
    const RowList list(rows);
    const auto n = static_cast<int32_t>(rows.size());
    Matrix q(n, shape.q_width());
    q.fill_normal(random, 2);
    Matrix got(n, shape.q_width());
    Matrix want(n, shape.q_width());
    on_tiles.attend(q, list, got);
    on_ref.attend(q, list, want);
    for (int32_t r = 0; r < n; ++r) {
      for (int32_t c = 0; c < shape.q_width(); ++c) ASSERT_NEAR(got.row(r)[c], want.row(r)[c], bound) << r << " " << c;
    }
    for (int32_t r = 0; r < n; ++r) {  // each row alone: the same bits
      Matrix alone(1, shape.q_width());
      Matrix one(1, shape.q_width());
      std::copy_n(q.row(r), shape.q_width(), one.row(0));
      on_tiles.attend(one, RowList({rows[static_cast<size_t>(r)]}), alone);
      ASSERT_TRUE(same_bits(alone.row(0), got.row(r), shape.q_width())) << r;
    }
  }
}

// The same with blocks of rows that differ in their branch tables.
TEST(AmxEmulated, RowsOfTreesSeeTheirOwnPathBitForBit) {
  cpu::Kernels kernels = cpu::portable_kernels();
  kernels.pack_queries = emulated::pack_query_tiles;
  kernels.attend = emulated::attend_tiles;
  kernels.joins_branches = emulated::fits_tiles;
  std::mt19937 random(19);
  for (int32_t threads : {1, 3}) {
    cpu::CpuOps ops(kernels, threads, KvDType::kBF16);
    for (const AttentionShape& shape : {AttentionShape{4, 2, 64, 0.125F}, {8, 1, 32, 0.2F}, {3, 3, 96, 0.1F}}) {
      for (const TreeCase& tree : tree_cases()) expect_tree_is_its_paths(ops, shape, tree, random);
    }
    cpu::CpuOps codes(kernels, threads, KvDType::kTq4);
    for (const TreeCase& tree : tree_cases()) {
      expect_tree_is_its_paths(codes, {4, 2, 64, 0.125F}, tree, random);
    }
  }
}

}  // namespace
}  // namespace ashlar::conformance
