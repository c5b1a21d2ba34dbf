#include "model/row_batch.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(RowBatch, KeepsRowsOfSequencesApart) {
  RowBatch batch(8, 2);
  const int32_t first[] = {4, 5};
  const int32_t second[] = {9};
  for (int round = 0; round < 2; ++round) {  // clear() forgets everything
    batch.clear();
    batch.begin_sequence(first);
    batch.add_row(70, 16, 18);
    batch.add_row(71, 17, 18);
    EXPECT_EQ(batch.want_output(), 0);
    batch.begin_sequence(second);
    batch.add_row(80, 0, 1);
    EXPECT_EQ(batch.want_output(), 1);
    const Rows rows = batch.rows();
    ASSERT_EQ(rows.n, 3);
    EXPECT_EQ(std::vector<int32_t>(rows.ids, rows.ids + 3), (std::vector<int32_t>{70, 71, 80}));
    EXPECT_EQ(std::vector<int32_t>(rows.positions, rows.positions + 3), (std::vector<int32_t>{16, 17, 0}));
    EXPECT_EQ(std::vector<int32_t>(rows.tables, rows.tables + 3), (std::vector<int32_t>{0, 0, 1}));
    EXPECT_EQ(rows.page_tables[0], first);
    EXPECT_EQ(rows.page_tables[1], second);
    EXPECT_EQ(std::vector<int32_t>(batch.outputs(), batch.outputs() + batch.n_outputs()), (std::vector<int32_t>{1, 2}));
  }
}

// Against the definition: key k is visible to query q if k is in the sequence's range, not after q (causal) or before
// the block's end (not causal), and |q - k| < window where there is one.
TEST(RowBatch, VisibilityFollowsItsDefinition) {
  constexpr int32_t kFirst = 3;
  constexpr int32_t kStart = 10;
  constexpr int32_t kBlock = 6;
  RowBatch batch(16, 1);
  const int32_t pages[] = {0};
  batch.begin_sequence(pages, kFirst);
  for (int32_t i = 0; i < kBlock; ++i) batch.add_row(0, kStart + i, kStart + kBlock);
  for (const bool causal : {true, false}) {
    for (int32_t window = 0; window < 20; ++window) {
      std::vector<int32_t> begin(kBlock), end(kBlock);
      batch.visibility({window, causal}, begin.data(), end.data());
      for (int32_t row = 0; row < kBlock; ++row) {
        const int32_t query = kStart + row;
        for (int32_t key = 0; key < 2 * kStart; ++key) {
          const bool near = window == 0 || std::abs(query - key) < window;
          const bool expected = key >= kFirst && near && (causal ? key <= query : key < kStart + kBlock);
          ASSERT_EQ(key >= begin[row] && key < end[row], expected)
              << "query " << query << " key " << key << " window " << window << (causal ? " causal" : " block");
        }
      }
    }
  }
}

TEST(RowBatch, RowsWithoutKvSeeWhatIsBeforeThem) {
  RowBatch batch(4, 2);
  const int32_t pages[] = {0};
  batch.begin_sequence(pages);
  batch.add_row(5, 8, 12);
  EXPECT_EQ(batch.rows().without_kv, nullptr);
  batch.add_without_kv(6, 9);
  batch.add_row(7, 10, 12);
  ASSERT_NE(batch.rows().without_kv, nullptr);
  for (int32_t r = 0; r < 3; ++r) EXPECT_EQ(batch.rows().is_without_kv(r), r == 1);
  int32_t begin[3], end[3];
  batch.visibility({0, true}, begin, end);
  EXPECT_EQ(std::vector<int32_t>(end, end + 3), (std::vector<int32_t>{9, 9, 11}));
  batch.visibility({0, false}, begin, end);
  EXPECT_EQ(std::vector<int32_t>(end, end + 3), (std::vector<int32_t>{12, 9, 12}));
  batch.visibility({4, false}, begin, end);  // itself is one of the four
  EXPECT_EQ(begin[1], 6);
  EXPECT_EQ(end[1], 9);
  batch.clear();
  batch.begin_sequence(pages);
  batch.add_row(5, 8, 12);
  EXPECT_EQ(batch.rows().without_kv, nullptr);
}

TEST(RowBatchDeath, FullBatchesAbort) {
  RowBatch batch(1, 1);
  const int32_t pages[] = {0};
  batch.begin_sequence(pages);
  batch.add_row(0, 0, 1);
  EXPECT_DEATH(batch.add_row(0, 1, 2), "check failed");
  EXPECT_DEATH(batch.begin_sequence(pages), "check failed");
}

TEST(RowBatch, BranchesSeeTheirOwnScratchSlots) {
  RowBatch batch(8, 2, 2);
  const int32_t pages[] = {4, 5};
  for (int round = 0; round < 2; ++round) {
    batch.clear();
    batch.begin_sequence(pages, 3);
    batch.add_row(70, 16, 17);
    EXPECT_EQ(batch.rows().scratch_slots, nullptr);
    EXPECT_EQ(batch.rows().branch_tables, nullptr);
    batch.begin_branch(17);
    batch.add_branch_slot(40);
    batch.add_in_scratch_slot(71, 17, 40);
    batch.begin_branch(17);
    batch.add_branch_slot(40);
    batch.add_branch_slot(41);
    batch.add_in_scratch_slot(72, 18, 41);
    batch.begin_sequence(pages);
    batch.add_row(73, 0, 1);
    const Rows rows = batch.rows();
    ASSERT_EQ(rows.n, 4);
    EXPECT_EQ(std::vector<int32_t>(rows.scratch_slots, rows.scratch_slots + 4), (std::vector<int32_t>{-1, 40, 41, -1}));
    EXPECT_EQ(std::vector<int32_t>(rows.tables, rows.tables + 4), (std::vector<int32_t>{0, 1, 2, 3}));
    for (int32_t t = 0; t < 4; ++t) EXPECT_EQ(rows.page_tables[t], pages);
    EXPECT_EQ(rows.branch_table(0).n, 0);
    EXPECT_EQ(rows.branch_table(1).end(), 18);
    ASSERT_EQ(rows.branch_table(2).n, 2);
    EXPECT_EQ(rows.branch_table(2).slots[1], 41);
    EXPECT_EQ(rows.branch_table(3).n, 0);
    int32_t begin[4], end[4];
    batch.visibility({0, true}, begin, end);
    EXPECT_EQ(std::vector<int32_t>(begin, begin + 4), (std::vector<int32_t>{3, 3, 3, 0}));
    EXPECT_EQ(std::vector<int32_t>(end, end + 4), (std::vector<int32_t>{17, 18, 19, 1}));
  }
}

class Cut : public ::testing::Test {
 protected:
  // Sequences with so many rows each, of which every third is asked for.
  void fill(const std::vector<int32_t>& rows) {
    batch_.clear();
    for (size_t s = 0; s < rows.size(); ++s) {
      batch_.begin_sequence(&pages_[s]);
      for (int32_t r = 0; r < rows[s]; ++r) add(r);
    }
  }
  void add(int32_t position) {
    batch_.add_row(0, position, position + 1);
    if (batch_.n() % 3 == 0) batch_.want_output();
  }
  // As much work as rows; those of the first sequence as much as `first` others each.
  std::vector<int64_t> work(int64_t first = 1) const {
    std::vector<int64_t> work = {7};
    for (int32_t r = 0; r < batch_.n(); ++r) work.push_back(work.back() + (batch_.rows().tables[r] == 0 ? first : 1));
    return work;
  }
  // Rows of each part, after looking that parts have all rows and outputs once.
  std::vector<int32_t> cut(size_t parts, bool expect_apart, int64_t first = 1) {
    std::vector<RowPart> cut(parts);
    EXPECT_EQ(batch_.cut(cut, work(first)), expect_apart);
    std::vector<int32_t> rows;
    int32_t row = 0;
    int32_t output = 0;
    for (const RowPart& part : cut) {
      EXPECT_EQ(part.first, row);
      EXPECT_EQ(part.first_output, output);
      for (int32_t o = 0; o < part.n_outputs; ++o) {
        EXPECT_GE(batch_.outputs()[output + o], row);
        EXPECT_LT(batch_.outputs()[output + o], row + part.n);
      }
      rows.push_back(part.n);
      row += part.n;
      output += part.n_outputs;
    }
    EXPECT_EQ(row, batch_.n());
    EXPECT_EQ(output, batch_.n_outputs());
    return rows;
  }

  const int32_t pages_[16] = {};
  RowBatch batch_{128, 16, 4};
};

TEST_F(Cut, FallsBetweenSequencesWherePartsAreNearlyEven) {
  fill({8, 8, 8, 8});
  EXPECT_EQ(cut(2, true), (std::vector<int32_t>{16, 16}));
  EXPECT_EQ(cut(4, true), (std::vector<int32_t>{8, 8, 8, 8}));
  fill({8, 8, 8, 8, 8, 8, 8});
  EXPECT_EQ(cut(2, true), (std::vector<int32_t>{32, 24}));
  fill({5, 4, 8, 3});
  EXPECT_EQ(cut(2, true), (std::vector<int32_t>{9, 11}));
}

TEST_F(Cut, GoesThroughSequencesThatAreTooFewOrTooDifferent) {
  fill({17});
  EXPECT_EQ(cut(2, false), (std::vector<int32_t>{8, 9}));
  fill({30, 2});
  EXPECT_EQ(cut(2, false), (std::vector<int32_t>{16, 16}));
  fill({8, 8, 8});
  EXPECT_EQ(cut(2, false), (std::vector<int32_t>{12, 12}));
  EXPECT_EQ(cut(3, true), (std::vector<int32_t>{8, 8, 8}));
  EXPECT_EQ(cut(5, false), (std::vector<int32_t>{4, 5, 5, 5, 5}));
}

TEST_F(Cut, WeighsRowsByTheirWork) {
  fill({4, 4, 4, 4});
  EXPECT_EQ(cut(2, true, 3), (std::vector<int32_t>{4, 12}));
  EXPECT_EQ(cut(2, false, 100), (std::vector<int32_t>{3, 13}));
  fill({1, 1, 1});
  EXPECT_EQ(cut(3, false, 100), (std::vector<int32_t>{1, 1, 1}));
  fill({2, 1, 1});
  EXPECT_EQ(cut(4, false, 100), (std::vector<int32_t>{1, 1, 1, 1}));
}

TEST_F(Cut, LeavesBranchesWithTheirSequence) {
  batch_.begin_sequence(&pages_[0]);
  for (int32_t r = 0; r < 4; ++r) add(r);
  batch_.begin_branch(2);
  for (int32_t r = 2; r < 6; ++r) add(r);
  EXPECT_EQ(cut(2, false), (std::vector<int32_t>{4, 4}));
  batch_.begin_sequence(&pages_[1]);
  for (int32_t r = 0; r < 8; ++r) add(r);
  EXPECT_EQ(cut(2, true), (std::vector<int32_t>{8, 8}));
}

}  // namespace
}  // namespace ashlar
