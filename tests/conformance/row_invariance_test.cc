// SPDX-License-Identifier: Apache-2.0
// The promise: the bits of an output row depend on that row's inputs alone. Every op, every instruction set, one to
// three threads; each row alone and among up to 64 others, at every place (ops that know of sequences: at many).
// Invariant: row-invariance.

#include <algorithm>
#include <functional>

#include "cache.h"

namespace ashlar::conformance {
namespace {

constexpr int32_t kRowInvarianceRows = 64;
constexpr int32_t kCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64};

/// Calls body(first, n) for every window of every count, so that each row stands at every place of each.
void for_each_window(const std::function<void(int32_t first, int32_t n)>& body) {
  for (int32_t n : kCounts) {
    for (int32_t first = 0; first + n <= kRowInvarianceRows; ++first) body(first, n);
  }
}

constexpr int32_t kTurned = 65;
/// A batch of 65 rows, all `by` places on: with every `by`, each has 64 others around it at every place.
Matrix turned(const Matrix& rows, int32_t by) {
  Matrix out(kTurned, rows.cols());
  for (int32_t r = 0; r < kTurned; ++r) std::copy_n(rows.row(r), rows.cols(), out.row((r + by) % kTurned));
  return out;
}

Tensor window(Matrix& m, int32_t first, int32_t n) {
  Tensor view = m.view();
  return {view.row(first), n, view.cols, view.stride};
}

/// Rows [0, n) of `got` are rows [first, first + n) of `want`.
testing::AssertionResult same_rows(const Matrix& got, const Matrix& want, int32_t first, int32_t n) {
  for (int32_t r = 0; r < n; ++r) {
    if (!same_bits(got.row(r), want.row(first + r), got.cols())) {
      return testing::AssertionFailure() << "row " << first + r << " differs at place " << r << " of " << n;
    }
  }
  return testing::AssertionSuccess();
}

class RowInvariance : public OnIsa {};

TEST_P(RowInvariance, Linear) {
  struct Case {
    Scheme scheme;
    int32_t n;
    int32_t k;
  };
  // The larger ones are split over the pool, the smaller ones are not.
  for (const Case c : {Case{Scheme::kBF16, 70, 45}, Case{Scheme::kF32, 70, 45}, Case{Scheme::kBF16, 448, 160}}) {
    const Checkpoint weight(c.scheme, c.n, c.k, random_);
    Matrix x(kRowInvarianceRows, c.k);
    x.fill_normal(random_);
    Matrix want(kRowInvarianceRows, c.n);
    make(1)->linear(*make(1)->pack(weight.source()), x.view(), Store::kOverwrite, want.view());
    for (int32_t threads : {1, 2, 3}) {
      const auto cpu = make(threads);
      const auto packed = cpu->pack(weight.source());
      Matrix got(kRowInvarianceRows, c.n);
      for_each_window([&](int32_t first, int32_t n) {
        if (c.n > 100 && first % 5 != 0 && n != 1) return;
        cpu->linear(*packed, window(x, first, n), Store::kOverwrite, window(got, 0, n));
        ASSERT_TRUE(same_rows(got, want, first, n)) << "n " << c.n << " threads " << threads;
      });
    }
  }
}

TEST_P(RowInvariance, AtEveryPlaceAmong64Others) {
  const Checkpoint weight(Scheme::kBF16, 140, 96, random_);
  const Checkpoint back(Scheme::kBF16, 96, 70, random_);
  Matrix x(kTurned, 96);
  x.fill_normal(random_);
  Matrix norm(1, 96);
  norm.fill_normal(random_);
  for (int32_t threads : {1, 3}) {
    const auto cpu = make(threads);
    const auto packed = cpu->pack(weight.source());
    const auto gate_up = cpu->pack(weight.source(), {.gated = true});
    const auto packed_down = cpu->pack(back.source());
    Matrix products(kTurned, 140), mlp = x, normed(kTurned, 96);
    std::vector<int32_t> best(kTurned), best_turned(kTurned);
    for (int32_t r = 0; r < kTurned; ++r) {  // each alone
      cpu->linear(*packed, window(x, r, 1), Store::kOverwrite, window(products, r, 1));
      cpu->linear_argmax(*packed, window(x, r, 1), &best[r]);
      cpu->gated_mlp(*gate_up, *packed_down, window(x, r, 1), window(mlp, r, 1));
      cpu->rms_norm(window(x, r, 1), norm.row(0), 1e-6F, window(normed, r, 1));
    }
    for (int32_t by = 0; by < kTurned; ++by) {
      Matrix in = turned(x, by), products_now(kTurned, 140), mlp_now = in, normed_now(kTurned, 96);
      cpu->linear(*packed, in.view(), Store::kOverwrite, products_now.view());
      cpu->linear_argmax(*packed, in.view(), best_turned.data());
      cpu->gated_mlp(*gate_up, *packed_down, in.view(), mlp_now.view());
      cpu->rms_norm(in.view(), norm.row(0), 1e-6F, normed_now.view());
      ASSERT_TRUE(same_rows(products_now, turned(products, by), 0, kTurned)) << by;
      ASSERT_TRUE(same_rows(mlp_now, turned(mlp, by), 0, kTurned)) << by;
      ASSERT_TRUE(same_rows(normed_now, turned(normed, by), 0, kTurned)) << by;
      for (int32_t r = 0; r < kTurned; ++r) ASSERT_EQ(best_turned[(r + by) % kTurned], best[r]) << by;
    }
  }
}

// Prefill sizes: more rows than one chunk of the row loop.
TEST_P(RowInvariance, LinearOfManyRows) {
  const Checkpoint weight(Scheme::kBF16, 200, 96, random_);
  const auto cpu = make(2);
  const auto packed = cpu->pack(weight.source());
  Matrix x(300, 96);
  x.fill_normal(random_);
  Matrix want(300, 200);
  cpu->linear(*packed, x.view(), Store::kOverwrite, want.view());
  Matrix got(300, 200);
  for (int32_t n : {1, 7, 16, 95, 96, 97, 200}) {
    for (int32_t first = 0; first + n <= 300; first += n == 1 ? 1 : 33) {
      cpu->linear(*packed, window(x, first, n), Store::kOverwrite, window(got, 0, n));
      ASSERT_TRUE(same_rows(got, want, first, n));
    }
  }
}

TEST_P(RowInvariance, GatedMlp) {
  for (const auto& [width, k] : {std::pair{70, 64}, {200, 33}}) {
    const Checkpoint weight(Scheme::kBF16, 2 * width, k, random_);
    Matrix x(kRowInvarianceRows, k);
    x.fill_normal(random_);
    const Checkpoint back(Scheme::kBF16, k, width, random_);
    const Matrix before(kRowInvarianceRows, k);
    Matrix want = before;
    const auto one = make(1);
    one->gated_mlp(*one->pack(weight.source(), {.gated = true}), *one->pack(back.source()), x.view(), want.view());
    for (int32_t threads : {1, 2, 3}) {
      const auto cpu = make(threads);
      const auto packed = cpu->pack(weight.source(), {.gated = true});
      const auto packed_down = cpu->pack(back.source());
      for_each_window([&](int32_t first, int32_t n) {
        if (first % 7 != 0 && n != 1) return;
        Matrix got = before;
        cpu->gated_mlp(*packed, *packed_down, window(x, first, n), window(got, 0, n));
        ASSERT_TRUE(same_rows(got, want, first, n));
      });
    }
  }
}

TEST_P(RowInvariance, Norm) {
  for (int32_t width : {37, 256, 1100}) {
    Matrix x(kRowInvarianceRows, 2 * width);
    x.fill_normal(random_, 2);
    Matrix weight(1, 2 * width);
    weight.fill_normal(random_);
    Matrix normed(kRowInvarianceRows, 2 * width);
    make(1)->rms_norm(x.view(), weight.row(0), 1e-6F, normed.view());
    for (int32_t threads : {1, 2, 3}) {
      const auto cpu = make(threads);
      Matrix got_normed(kRowInvarianceRows, 2 * width);
      for_each_window([&](int32_t first, int32_t n) {
        if (first % 7 != 0 && n != 1) return;
        cpu->rms_norm(window(x, first, n), weight.row(0), 1e-6F, window(got_normed, 0, n));
        ASSERT_TRUE(same_rows(got_normed, normed, first, n));
      });
    }
  }
}

TEST_P(RowInvariance, StoreKv) {
  const AttentionShape shape{4, 2, 64, 0.125F};
  const RealRope rope(64, 128, /*grows=*/true);
  const std::vector<int32_t> lengths{30, 34};
  const RowList list(all_positions(lengths));
  Matrix norm_weight(1, 64);
  norm_weight.fill_normal(random_);
  Matrix qkv(kRowInvarianceRows, shape.q_width() + 2 * shape.kv_width());
  qkv.fill_normal(random_);
  for (const KvDType kv : kv_dtypes(shape.head_dim)) {
    const auto one = make(1, kv);
    Cache want(*one, shape, lengths, 4);
    Matrix want_rows = qkv;
    want.store(want_rows, list, norm_weight.row(0), norm_weight.row(0), rope.table);
    for (int32_t threads : {1, 2, 3}) {
      const auto cpu = make(threads, kv);
      for (int32_t n : {1, 3, 16, 64}) {
        Cache got(*cpu, shape, lengths, 4);
        Matrix got_rows = qkv;
        for (int32_t first = 0; first < kRowInvarianceRows; first += n) {
          const int32_t count = std::min(n, kRowInvarianceRows - first);
          cpu->store_kv(window(got_rows, first, count),
                        {shape, norm_weight.row(0), norm_weight.row(0), 1e-6F, rope.table,
                         list.rows(got.tables(), first, count), got.plane()});
        }
        ASSERT_EQ(std::memcmp(got.memory().data(), want.memory().data(), want.memory().size()), 0) << name_of(kv);
        for (int32_t r = 0; r < kRowInvarianceRows; ++r)
          ASSERT_TRUE(same_bits(got_rows.row(r), want_rows.row(r), shape.q_width()));
      }
    }
  }
}

/// 64 rows: verification of a long and of a short context, a window, a block, lone keys; causal borders all different.
/// Every fifth is without KV.
std::vector<Row> invariance_rows() {
  std::vector<Row> rows;
  for (int32_t i = 0; i < 20; ++i) rows.push_back({0, 780 + i, 0, 781 + i});
  for (int32_t i = 0; i < 16; ++i) rows.push_back({1, 20 + i, 0, 36});
  for (int32_t i = 0; i < 16; ++i) rows.push_back({2, 510 + i, 250 + 2 * i, 511 + i});
  for (int32_t i = 0; i < 11; ++i) rows.push_back({0, 790 + i, i * 70, i * 70 + i});
  rows.push_back({1, 35, 35, 36});
  for (size_t i = 0; i < rows.size(); i += 5) rows[i].without_kv = true;
  return rows;
}

TEST_P(RowInvariance, Attention) {
  const std::vector<int32_t> lengths{801, 36, 526};
  const std::vector<std::pair<AttentionShape, KvDType>> cases = {
      {{4, 2, 64, 0.125F}, KvDType::kBF16},   {{5, 1, 24, 0.2F}, KvDType::kBF16},
      {{4, 1, 256, 0.0625F}, KvDType::kBF16}, {{4, 2, 64, 0.125F}, KvDType::kInt8},
      {{4, 1, 256, 0.0625F}, KvDType::kTq4},  {{4, 2, 64, 0.125F}, KvDType::kTq4},
      {{5, 1, 24, 0.2F}, KvDType::kInt8}};
  for (const auto& [shape, kv] : cases) {
    const std::vector<KvDType> have = kv_dtypes(shape.head_dim);
    if (std::ranges::find(have, kv) == have.end()) continue;
    const IdentityRope rope(shape.head_dim, 1024);
    const RowList filling(all_positions(lengths));
    Matrix kv_rows(static_cast<int32_t>(filling.tables.size()), 2 * shape.kv_width());
    kv_rows.fill_normal(random_);
    const RowList list(invariance_rows());
    Matrix q(kRowInvarianceRows, shape.q_width() + 2 * shape.kv_width());
    q.fill_normal(random_, 2);
    Matrix want(kRowInvarianceRows, shape.q_width());
    for (int32_t threads : {1, 2, 3}) {
      const auto cpu = make(threads, kv);
      Cache cache(*cpu, shape, lengths, 8);
      cache.store(kv_rows, filling, nullptr, nullptr, rope.table);
      if (threads == 1) cache.attend(q, list, want);
      Matrix got(kRowInvarianceRows, shape.q_width());
      for_each_window([&](int32_t first, int32_t n) {
        if (n > 1 && first % 9 != 0) return;
        cpu->attention(window(q, first, n), shape, list.rows(cache.tables(), first, n), list.visible(first),
                       cache.plane(), window(got, 0, n));
        ASSERT_TRUE(same_rows(got, want, first, n)) << "threads " << threads << " dim " << shape.head_dim;
      });
    }
  }
}

ASHLAR_FOR_EACH_ISA(RowInvariance);

// Says in the log what the run above covered: a machine without a path must not look like one that passed it.
TEST(Coverage, InstructionSetsOfThisMachine) {
  std::string have;
  for (const std::string& isa : isa_choices()) have += " " + isa;
  std::printf("[ COVERAGE ] %zu of 4 instruction sets ran:%s\n", isa_choices().size(), have.c_str());
  EXPECT_GE(isa_choices().size(), 1u);
  EXPECT_THROW(make_device("cpu", {1, "mmx"}), std::exception);
}

}  // namespace
}  // namespace ashlar::conformance
