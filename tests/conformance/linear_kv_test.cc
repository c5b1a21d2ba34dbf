// SPDX-License-Identifier: Apache-2.0
// A projection whose heads are finished as they are computed, against the projection and store_kv one after the other:
// the same bits in the rows and in the cache, for any number of threads and of rows in a call.

#include "cache.h"

namespace ashlar::conformance {
namespace {

// Heads of one panel of columns, of two, of half of one and of none in particular.
constexpr AttentionShape kLinearKvShapes[] = {{4, 2, 64, 1}, {2, 1, 128, 1}, {4, 4, 32, 1}, {3, 3, 80, 1}};
constexpr int32_t kLinearKvWidth = 96;
constexpr int32_t kLinearKvRows = 70;  // more than a few blocks, so that some are cut by rows

class LinearKv : public OnIsa {
 protected:
  // Sequences of 40 and 30 rows; one more, of which a page is scratch slots. Every seventh row is without KV, every
  // fifth goes to a scratch slot.
  struct Layout {
    Layout() : list(rows()) {}
    static std::vector<Row> rows() {
      std::vector<Row> rows = all_positions({40, 30});
      for (size_t r = 0; r < rows.size(); r += 7) rows[r].without_kv = true;
      return rows;
    }
    Rows window(const Cache& cache, int32_t first, int32_t n) {
      const int32_t page = cache.tables()[2][0];
      scratch_slots.clear();
      for (int32_t r = first; r < first + n; ++r) {
        scratch_slots.push_back(r % 5 == 3 && r / 5 < kScratchSlotsPerPage ? page * kScratchSlotsPerPage + r / 5 : -1);
      }
      Rows rows = list.rows(cache.tables(), first, n);
      rows.scratch_slots = scratch_slots.data();
      rows.branch_tables = branch_tables;
      return rows;
    }
    std::vector<int32_t> lengths{40, 30, 16};
    RowList list;
    std::vector<int32_t> scratch_slots;
    BranchTable branch_tables[3];
  };

  void compare(const AttentionShape& shape, Scheme weights, KvDType kv, bool with_queries, bool quantised) {
    Layout layout;
    const RealRope rope(shape.head_dim, 64);
    const int32_t columns = (with_queries ? shape.q_width() : 0) + 2 * shape.kv_width();
    const Checkpoint stored(weights, columns, kLinearKvWidth, random_);
    std::vector<float> bias(static_cast<size_t>(columns));
    for (float& value : bias) value = static_cast<float>(random_() % 100) / 50.0F;
    Matrix x(kLinearKvRows, kLinearKvWidth), norms(3, std::max(kLinearKvWidth, shape.head_dim));
    x.fill_normal(random_);
    norms.fill_normal(random_);
    const auto pack = [&](Ops& ops) {
      return ops.pack(stored.source(bias), {.products = quantised ? Products::kPropose : Products::kDecide});
    };
    const auto input = [&](int32_t first, int32_t n) {
      const Tensor all = x.view();
      return Input{{all.row(first), n, all.cols, all.stride}, norms.row(2), 1e-6F};
    };
    const auto into = [&](Cache& cache, const Rows& rows) {
      return KvStore{shape, norms.row(0), norms.row(1), 1e-6F, rope.table, rows, cache.plane()};
    };

    const auto one = make(1, kv);
    const auto weight = pack(*one);
    Cache want(*one, shape, layout.lengths, 3);
    Matrix want_rows(kLinearKvRows, columns);
    one->linear(*weight, input(0, kLinearKvRows), Store::kOverwrite, want_rows.view());
    one->store_kv(want_rows.view(), into(want, layout.window(want, 0, kLinearKvRows)));
    for (const int32_t threads : {1, 2, 3}) {
      const auto cpu = make(threads, kv);
      const auto mine = pack(*cpu);
      for (const int32_t n : {1, 7, 16, 33, kLinearKvRows}) {
        Cache got(*cpu, shape, layout.lengths, 3);
        Matrix got_rows(kLinearKvRows, columns);
        for (int32_t first = 0; first < kLinearKvRows; first += n) {
          const int32_t count = std::min(n, kLinearKvRows - first);
          const Tensor all = got_rows.view();
          cpu->linear_kv(*mine, input(first, count), {all.row(first), count, all.cols, all.stride},
                         into(got, layout.window(got, first, count)));
        }
        const std::string where = "head_dim " + std::to_string(shape.head_dim) + ", " + std::to_string(threads) +
                                  " threads, " + std::to_string(n) + " rows";
        ASSERT_EQ(std::memcmp(got.memory().data(), want.memory().data(), want.memory().size()), 0) << where;
        for (int32_t r = 0; r < kLinearKvRows; ++r) {
          ASSERT_TRUE(same_bits(got_rows.row(r), want_rows.row(r), columns)) << where << ", row " << r;
        }
        ASSERT_TRUE(got_rows.guards_intact()) << where;
      }
    }
  }
};

TEST_P(LinearKv, IsTheProductAndThenTheStore) {
  for (const AttentionShape& shape : kLinearKvShapes) {
    compare(shape, Scheme::kBF16, KvDType::kBF16, true, false);
    compare(shape, Scheme::kF32, exact_kv(), true, false);
  }
}

TEST_P(LinearKv, StoresCodes) {
  for (const KvDType kv : kv_dtypes(kLinearKvShapes[0].head_dim)) {
    if (kv_codec(kv) != nullptr) compare(kLinearKvShapes[0], Scheme::kBF16, kv, true, false);
  }
}

TEST_P(LinearKv, TakesKeysAndValuesAlone) { compare(kLinearKvShapes[0], Scheme::kBF16, KvDType::kBF16, false, false); }

TEST_P(LinearKv, Takes8Bits) { compare(kLinearKvShapes[0], Scheme::kBF16, KvDType::kBF16, true, true); }

ASHLAR_FOR_EACH_ISA(LinearKv);

}  // namespace
}  // namespace ashlar::conformance
