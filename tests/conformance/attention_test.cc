// SPDX-License-Identifier: Apache-2.0
// store_kv and attention against the reference.

#include "cache.h"

namespace ashlar::conformance {
namespace {

constexpr AttentionShape kAttentionShapes[] = {
    {4, 2, 64, 0.125F}, {8, 1, 32, 0.2F}, {6, 6, 80, 0.11F},   {4, 4, 128, 0.09F},   {3, 1, 10, 0.3F},
    {40, 1, 16, 0.25F}, {2, 2, 2, 0.7F},  {10, 2, 64, 0.125F}, {4, 1, 256, 0.0625F},
};

/// What the methods of the engine ask for: sequence 0 is short, 1 ends on a page border, 2 crosses several segments.
const std::vector<int32_t> kLengths{13, 48, 900, 300};

std::vector<Row> mixed_rows() {
  std::vector<Row> rows;
  for (int32_t p = 0; p < 13; ++p) rows.push_back({0, p, 0, p + 1});     // a whole causal prompt
  for (int32_t p = 32; p < 48; ++p) rows.push_back({1, p, 0, 48});       // a block that sees all of itself
  for (int32_t p = 884; p < 900; ++p) rows.push_back({2, p, 0, p + 1});  // verification at the end of a long context
  rows.push_back({2, 899, 899, 900});                                    // one key
  rows.push_back({2, 899, 640, 640});                                    // none
  for (int32_t p = 250; p < 275; ++p) rows.push_back({3, p, p - 20, p + 1});   // a window over a segment border
  for (int32_t p = 275; p < 300; ++p) rows.push_back({3, p, p - 270, p + 1});  // a window longer than a segment
  rows.push_back({3, 299, 256, 300});                                          // from a segment border
  rows.push_back({3, 299, 0, 256});                                            // to a segment border
  rows.push_back({3, 299, 17, 31});                                            // inside one page and out at both ends
  rows.push_back({0, 0, 0, 0});                                                // none, alone in its sequence's run
  rows.push_back({0, 0, 0, 0, true});                                          // itself alone
  for (int32_t p = 44; p < 48; ++p) rows.push_back({1, p, 0, p, p != 46});     // what is before, and itself; one is not
  for (int32_t p = 890; p < 900; ++p) rows.push_back({2, p, 0, p, true});      // the same after a long context
  rows.push_back({3, 299, 256, 299, true});                                    // from a segment border
  return rows;
}

class Attention : public OnIsa {};

// K and V are exact in bf16 and the rotation is by zero, so both cache types hold exactly what the reference holds, and
// only the arithmetic of attention itself differs.
TEST_P(Attention, MatchesReference) {
  for (const AttentionShape& shape : kAttentionShapes) {
    for (KvDType kv : kv_dtypes(shape.head_dim)) {
      for (int32_t threads : {1, 2}) {
        const auto cpu = make(threads, kv);
        const auto ref = make_ref_ops(kv);
        const IdentityRope rope(shape.head_dim, 1024);
        Cache on_cpu(*cpu, shape, kLengths, 5);
        Cache on_ref(*ref, shape, kLengths, 6);
        fill_alike(on_cpu, on_ref, shape, kLengths, rope.table, random_);

        const RowList list(mixed_rows());
        const auto n = static_cast<int32_t>(list.tables.size());
        Matrix q(n, shape.q_width() + 2 * shape.kv_width());  // as it lies inside the projections
        q.fill_normal(random_, 2);
        Matrix got(n, shape.q_width());
        Matrix want(n, shape.q_width());
        on_cpu.attend(q, list, got);
        on_ref.attend(q, list, want);
        for (int32_t r = 0; r < n; ++r) {
          for (int32_t c = 0; c < shape.q_width(); ++c) {
            // Weights sum to 1 and values are about 1: an absolute bound is the natural one. Tiles take queries and
            // weights as two bf16 parts each, exact to 2^-17 = 8e-6.
            const bool tiles = GetParam() == "amx" && kv == KvDType::kBF16 && shape.head_dim % 32 == 0;
            // Codes are the same here and there, and become bf16 before they are used: keys are off by up to 2^-9 of
            // their length, so scores by 2^-9 |q| |k| / sqrt(d), here 0.03, and answers by twice that at the very
            // worst. A GPU rounds a weight times its scale, then the answer: each by 2^-9 of a value, which is up to 5;
            // where it rotates, queries and levels, too.
            const bool codes = kv_codec(kv) != nullptr, rotates = codes && kv_codec(kv)->rotates();
            const double exact = tiles ? 3e-5 : 1e-5;
            ASSERT_NEAR(got.row(r)[c], want.row(r)[c],
                        bound(codes ? 1.0 / 32 : exact, rotates ? 1.0 / 24
                                                        : codes ? 1.0 / 32
                                                                : 1.0 / 64))
                << name_of(kv) << " heads " << shape.n_heads << " dim " << shape.head_dim << " row " << r << " col "
                << c;
          }
        }
        ASSERT_TRUE(got.guards_intact());
      }
    }
  }
}

// A sink takes its part of the weights. Rows in every place of a batch: alone and together the same bits.
TEST_P(Attention, SinksTakePartAndAddNothing) {
  for (const AttentionShape& plain : {kAttentionShapes[0], kAttentionShapes[1], kAttentionShapes[2],
                                      kAttentionShapes[3], kAttentionShapes[5], kAttentionShapes[8]}) {
    Matrix sinks(1, plain.n_heads);
    sinks.fill_normal(random_, 3);
    sinks.row(0)[0] = 200;  // takes all
    sinks.row(0)[plain.n_heads - 1] = -200;
    AttentionShape shape = plain;
    shape.sinks = sinks.row(0);
    for (const int32_t threads : {1, 2}) {
      const auto cpu = make(threads);
      const auto ref = make_ref_ops();
      const IdentityRope rope(shape.head_dim, 1024);
      Cache on_cpu(*cpu, shape, kLengths, 5);
      Cache on_ref(*ref, shape, kLengths, 6);
      fill_alike(on_cpu, on_ref, shape, kLengths, rope.table, random_);
      const std::vector<Row> rows = mixed_rows();
      const RowList list(rows);
      const auto n = static_cast<int32_t>(rows.size());
      Matrix q(n, shape.q_width() + 2 * shape.kv_width());
      q.fill_normal(random_, 2);
      Matrix got(n, shape.q_width());
      Matrix want(n, shape.q_width());
      on_cpu.attend(q, list, got);
      on_ref.attend(q, list, want);
      for (int32_t r = 0; r < n; ++r) {
        for (int32_t c = 0; c < shape.q_width(); ++c) {
          const bool tiles = GetParam() == "amx" && shape.head_dim % 32 == 0;
          ASSERT_NEAR(got.row(r)[c], want.row(r)[c], bound(tiles ? 3e-5 : 1e-5, 1.0 / 64))
              << "dim " << shape.head_dim << " row " << r << " col " << c;
          ASSERT_LT(c < shape.head_dim ? std::abs(got.row(r)[c]) : 0.0F, 1e-30F) << r;
        }
        Matrix one(1, q.view().cols), alone(1, shape.q_width());
        std::copy_n(q.row(r), q.view().cols, one.row(0));
        on_cpu.attend(one, RowList({rows[static_cast<size_t>(r)]}), alone);
        ASSERT_TRUE(same_bits(alone.row(0), got.row(r), shape.q_width())) << r;
      }
    }
  }
}

TEST_P(Attention, ScoresFarApartDoNotOverflow) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  const AttentionShape shape{2, 1, 16, 1.0F};
  const std::vector<int32_t> lengths{600};
  const IdentityRope rope(16, 600);
  Cache on_cpu(*cpu, shape, lengths, 1);
  Cache on_ref(*ref, shape, lengths, 1);
  const RowList filling(all_positions(lengths));
  Matrix kv_rows(600, 32);
  kv_rows.fill_normal(random_, 30);
  kv_rows.round_to_bf16();
  on_cpu.store(kv_rows, filling, nullptr, nullptr, rope.table);
  on_ref.store(kv_rows, filling, nullptr, nullptr, rope.table);
  const RowList list({{0, 599, 0, 600}, {0, 599, 0, 257}});
  Matrix q(2, 32);
  q.fill_normal(random_, 30);
  Matrix got(2, 32);
  Matrix want(2, 32);
  on_cpu.attend(q, list, got);
  on_ref.attend(q, list, want);
  EXPECT_LT(worst_row_error(got, want), bound(1e-3, 1.0 / 64));  // scores of about 4000: an ulp of one is 2.4e-4
}

// Norms, rotation and cache together. Queries are compared directly, keys and values through attention.
TEST_P(Attention, StoreNormalisesRotatesAndKeeps) {
  for (const AttentionShape& shape : kAttentionShapes) {
    for (KvDType kv : kv_dtypes(shape.head_dim)) {
      const auto cpu = make(2, kv);
      const auto ref = make_ref_ops(kv);
      for (const int32_t rotary : {shape.head_dim, shape.head_dim / 4 * 2}) {
        const RealRope rope(rotary, 128, /*grows=*/rotary == shape.head_dim);
        const std::vector<int32_t> lengths{70, 20};
        Cache on_cpu(*cpu, shape, lengths, 2);
        Cache on_ref(*ref, shape, lengths, 3);
        Matrix q_norm(1, shape.head_dim);
        Matrix k_norm(1, shape.head_dim);
        q_norm.fill_normal(random_);
        k_norm.fill_normal(random_);
        const bool normed = rotary == shape.head_dim;
        std::vector<Row> rows = all_positions(lengths);
        for (Row& row : rows) row.end = row.position + 1;
        const RowList list(rows);
        const auto n = static_cast<int32_t>(rows.size());
        Matrix mine(n, shape.q_width() + 2 * shape.kv_width());
        mine.fill_normal(random_);
        Matrix theirs = mine;
        on_cpu.store(mine, list, normed ? q_norm.row(0) : nullptr, normed ? k_norm.row(0) : nullptr, rope.table);
        on_ref.store(theirs, list, normed ? q_norm.row(0) : nullptr, normed ? k_norm.row(0) : nullptr, rope.table);
        for (int32_t r = 0; r < n; ++r) {
          for (int32_t c = 0; c < shape.q_width(); ++c) {
            const float want = theirs.row(r)[c];
            ASSERT_NEAR(mine.row(r)[c], want, bound(1e-4, std::max(1.0F, std::abs(want)) / 256));
          }
        }
        ASSERT_TRUE(mine.guards_intact());
        Matrix got(n, shape.q_width());
        Matrix want(n, shape.q_width());
        on_cpu.attend(mine, list, got);
        on_ref.attend(theirs, list, want);
        // Two-dimensional heads and strong norms make steep softmaxes, where a rounded key counts most.
        ASSERT_LT(worst_row_error(got, want), kv == KvDType::kF32 ? 1e-3 : 0.3)
            << name_of(kv) << ' ' << shape.n_heads << " x " << shape.head_dim;
      }
    }
  }
}

// A row that is without KV leaves the cache as it is, and its attention is that of a row that was stored.
TEST_P(Attention, RowsWithoutKvAreNotKept) {
  const AttentionShape shape{4, 2, 64, 0.125F};
  for (KvDType kv : kv_dtypes(shape.head_dim)) {
    const auto cpu = make(2, kv);
    const RealRope rope(64, 400);
    const std::vector<int32_t> lengths{300};
    Cache cache(*cpu, shape, lengths, 4);
    Matrix k_norm(1, 64);
    k_norm.fill_normal(random_);
    const RowList filling(all_positions(lengths));
    Matrix before(300, shape.q_width() + 2 * shape.kv_width());
    before.fill_normal(random_);
    cache.store(before, filling, k_norm.row(0), k_norm.row(0), rope.table);
    const std::vector<std::byte> kept(cache.memory().data(), cache.memory().data() + cache.memory().size());

    for (const int32_t p : {0, 1, 16, 17, 255, 256, 299}) {
      Matrix own(1, before.cols());
      own.fill_normal(random_);
      Matrix stored = own;
      const RowList alone({{0, p, 0, p, true}});
      cache.store(own, alone, k_norm.row(0), k_norm.row(0), rope.table);
      ASSERT_EQ(std::memcmp(kept.data(), cache.memory().data(), kept.size()), 0) << p;
      Matrix got(1, shape.q_width());
      cache.attend(own, alone, got);

      const RowList usual({{0, p, 0, p + 1}});
      cache.store(stored, usual, k_norm.row(0), k_norm.row(0), rope.table);
      ASSERT_EQ(std::memcmp(stored.row(0), own.row(0), sizeof(float) * before.cols()), 0) << p;
      Matrix want(1, shape.q_width());
      cache.attend(stored, usual, want);
      // The cache rounds K and V. A GPU has the row's own in bf16, whose codes may be others: next levels of 4 bits are
      // a third of a deviation apart, in one of 64 dimensions 4 % of the length.
      const bool few_bits = kv == KvDType::kTq4;
      ASSERT_LT(worst_row_error(got, want), kv == KvDType::kF32 ? 1e-4 : bound(2e-2, few_bits ? 0.1 : 2e-2)) << p;
      std::copy(kept.begin(), kept.end(), cache.memory().data());
    }
  }
}

// Context rows of a drafter carry K and V only.
TEST_P(Attention, StoreOfQueriesAloneFinishesThemAlikeAndKeepsNothing) {
  const auto cpu = make(2);
  const AttentionShape shape{6, 2, 64, 0.125F};
  const RealRope rope(64, 64);
  const std::vector<int32_t> lengths{40};
  Cache whole(*cpu, shape, lengths, 9);
  Cache untouched(*cpu, shape, lengths, 9);
  const RowList list(all_positions(lengths));
  Matrix q_norm(1, 64);
  q_norm.fill_normal(random_);
  Matrix qkv(40, shape.q_width() + 2 * shape.kv_width());
  qkv.fill_normal(random_);
  Matrix queries(40, shape.q_width());
  for (int32_t r = 0; r < 40; ++r) std::copy_n(qkv.row(r), queries.cols(), queries.row(r));
  whole.store(qkv, list, q_norm.row(0), nullptr, rope.table);
  AttentionShape alone = shape;
  alone.n_kv_heads = 0;
  cpu->store_kv(queries.view(),
                {alone, q_norm.row(0), nullptr, 1e-6F, rope.table, list.rows(untouched.tables()), untouched.plane()});
  for (int32_t r = 0; r < 40; ++r) {
    ASSERT_EQ(std::memcmp(queries.row(r), qkv.row(r), sizeof(float) * static_cast<size_t>(queries.cols())), 0) << r;
  }
  const std::vector<std::byte> nothing(untouched.memory().size(), std::byte{0xFF});
  EXPECT_EQ(std::memcmp(untouched.memory().data(), nothing.data(), nothing.size()), 0);
}

TEST_P(Attention, StoreWithoutQueriesKeepsTheSameKeys) {
  const auto cpu = make();
  const AttentionShape shape{4, 2, 64, 0.125F};
  const RealRope rope(64, 64);
  const std::vector<int32_t> lengths{40};
  Cache whole(*cpu, shape, lengths, 9);
  Cache context(*cpu, shape, lengths, 9);
  const RowList list(all_positions(lengths));
  Matrix k_norm(1, 64);
  k_norm.fill_normal(random_);
  Matrix qkv(40, shape.q_width() + 2 * shape.kv_width());
  qkv.fill_normal(random_);
  Matrix kv(40, 2 * shape.kv_width());
  for (int32_t r = 0; r < 40; ++r) std::copy_n(qkv.row(r) + shape.q_width(), kv.cols(), kv.row(r));
  whole.store(qkv, list, nullptr, k_norm.row(0), rope.table);
  context.store(kv, list, nullptr, k_norm.row(0), rope.table);
  EXPECT_EQ(std::memcmp(whole.memory().data(), context.memory().data(), whole.memory().size()), 0);
}

ASHLAR_FOR_EACH_ISA(Attention);

}  // namespace
}  // namespace ashlar::conformance
