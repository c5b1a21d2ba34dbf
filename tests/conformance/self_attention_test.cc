// SPDX-License-Identifier: Apache-2.0
// The attention of a layer as one op against its three ops one after the other on one thread: the same bits in what is
// added to the rows and in the cache.

#include "cache.h"

namespace ashlar::conformance {
namespace {

constexpr AttentionShape kSelfAttentionShapes[] = {{4, 2, 64, 0.125F}, {4, 4, 64, 0.125F}, {4, 2, 128, 0.09F}};
constexpr int32_t kSelfAttentionWidth = 128;
constexpr int32_t kNear = 40;  // tokens of the first sequence
constexpr int32_t kSelfAttentionRows = 13;

class SelfAttentionOp : public OnIsa {
 protected:
  // Six rows of a sequence, the fifth of which only it sees; two of a branch that leaves it after its third row; five
  // of another sequence.
  static std::vector<Row> rows(int32_t far) {
    std::vector<Row> rows;
    for (int32_t p = kNear; p < kNear + 6; ++p)
      rows.push_back({0, p, 0, p == kNear + 5 ? p - 1 : p + 1, p == kNear + 4});
    rows[4].end = kNear + 4;
    for (int32_t p = kNear + 3; p < kNear + 5; ++p) rows.push_back({1, p, 0, p + 1});
    for (int32_t p = far; p < far + 5; ++p) rows.push_back({2, p, p / 9, p + 1});
    return rows;
  }

  /// What `run` leaves in the rows [first, kRows) and in the cache.
  template <class Run>
  std::pair<Matrix, std::vector<std::byte>> result(Ops& ops, const AttentionShape& shape, int32_t far, int32_t first,
                                                   Scheme weights, bool quantised, const Run& run) {
    std::mt19937 random(11);
    Cache cache(ops, shape, {kNear + 6, far + 5, kPageTokens}, 3);
    const RealRope rope(shape.head_dim, far + kNear);
    for (int32_t s = 0; s < 2; ++s) {
      Matrix context(s == 0 ? kNear : far, 2 * shape.kv_width());
      context.fill_normal(random);
      std::vector<Row> filling;
      for (int32_t p = 0; p < context.rows(); ++p) filling.push_back({s, p});
      cache.store(context, RowList(filling), nullptr, nullptr, rope.table);
    }
    const int32_t columns = shape.q_width() + 2 * shape.kv_width();
    const Checkpoint in(weights, columns, kSelfAttentionWidth, random);
    const Checkpoint back(weights, kSelfAttentionWidth, shape.q_width(), random);
    const auto pack = [&](const Checkpoint& stored) {
      const std::vector<float> bias(static_cast<size_t>(stored.rows), 0.25F);
      return ops.pack(stored.source(bias), {.products = quantised ? Products::kPropose : Products::kDecide});
    };
    const auto projection = pack(in);
    const auto output = pack(back);
    Matrix x(kSelfAttentionRows, kSelfAttentionWidth), norms(3, kSelfAttentionWidth), qkv(kSelfAttentionRows, columns),
        mixed(kSelfAttentionRows, shape.q_width()), copy(kSelfAttentionRows, kSelfAttentionWidth);
    x.fill_normal(random);
    norms.fill_normal(random);

    const auto* tables = cache.tables().data();
    const std::vector<const int32_t*> of_rows = {tables[0], tables[0], tables[1]};
    const int32_t page = tables[2][0] * kScratchSlotsPerPage;
    const int32_t branch[] = {page + 1, page + 2};
    const BranchTable branch_tables[] = {{}, {kNear + 3, 2, branch}, {}};
    std::vector<int32_t> scratch_slots(kSelfAttentionRows, -1);
    std::copy_n(branch, 2, scratch_slots.begin() + 6);
    const RowList list(rows(far));
    Rows all = list.rows(of_rows);
    all.scratch_slots = scratch_slots.data();
    all.branch_tables = branch_tables;
    const int32_t n = kSelfAttentionRows - first;
    const Rows some = all.part(first, n);
    const auto part = [&](Matrix& matrix) { return matrix.view().part(first, n); };
    const KvStore store = {shape, norms.row(0), norms.row(1), 1e-6F, rope.table, some, cache.plane()};
    const Matrix before = x;
    run(SelfAttention{*projection,
                      *output,
                      {part(x), norms.row(2), 1e-6F},
                      store,
                      list.visible(first),
                      part(qkv),
                      part(mixed),
                      part(copy)},
        part(x));
    for (int32_t r = first; r < kSelfAttentionRows; ++r)
      EXPECT_TRUE(same_bits(copy.row(r), before.row(r), kSelfAttentionWidth)) << "copy " << r;
    EXPECT_TRUE(copy.guards_intact());
    Buffer& memory = cache.memory();
    return {std::move(x), {memory.data(), memory.data() + memory.size()}};
  }

  void compare(const AttentionShape& shape, Scheme weights, KvDType kv, bool quantised) {
    const auto one = make(1, kv);
    for (const int32_t far : {20, 300}) {  // with a segment and with more
      for (const int32_t first : {0, 8, 12}) {
        const auto want = result(*one, shape, far, first, weights, quantised, [&](const SelfAttention& call, Tensor x) {
          one->copy(call.in.x, call.copy);
          one->linear_kv(call.projection, call.in, call.qkv, call.store);
          one->attention(call.qkv, shape, call.store.rows, call.visible, call.store.plane, call.mixed);
          one->linear(call.output, call.mixed, Store::kAdd, x);
        });
        for (const int32_t threads : {1, 2, 3, 4}) {
          const auto cpu = make(threads, kv);
          const auto got = result(*cpu, shape, far, first, weights, quantised,
                                  [&](const SelfAttention& call, Tensor x) { cpu->self_attention(call, x); });
          const std::string where = "head_dim " + std::to_string(shape.head_dim) + ", " + std::to_string(threads) +
                                    " threads, rows from " + std::to_string(first) + ", " + std::to_string(far) +
                                    " tokens";
          ASSERT_TRUE(got.second == want.second) << where;
          for (int32_t r = 0; r < kSelfAttentionRows; ++r) {
            ASSERT_TRUE(same_bits(got.first.row(r), want.first.row(r), kSelfAttentionWidth)) << where << ", row " << r;
          }
          ASSERT_TRUE(got.first.guards_intact()) << where;
        }
      }
    }
  }
};

TEST_P(SelfAttentionOp, IsItsThreeOps) {
  for (const AttentionShape& shape : kSelfAttentionShapes) compare(shape, Scheme::kBF16, KvDType::kBF16, false);
}

TEST_P(SelfAttentionOp, IsItsThreeOpsInFp32) { compare(kSelfAttentionShapes[0], Scheme::kF32, exact_kv(), false); }

TEST_P(SelfAttentionOp, IsItsThreeOpsOverCodes) {
  for (const AttentionShape& shape : kSelfAttentionShapes) {
    for (const KvDType kv : kv_dtypes(shape.head_dim)) {
      if (kv_codec(kv) != nullptr) compare(shape, Scheme::kBF16, kv, false);
    }
  }
}

TEST_P(SelfAttentionOp, IsItsThreeOpsWith8Bits) {
  compare(kSelfAttentionShapes[0], Scheme::kBF16, KvDType::kBF16, true);
}

ASHLAR_FOR_EACH_ISA(SelfAttentionOp);

}  // namespace
}  // namespace ashlar::conformance
