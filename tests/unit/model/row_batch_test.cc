// SPDX-License-Identifier: Apache-2.0
#include "model/row_batch.h"

#include <gtest/gtest.h>

#include "device/device.h"

namespace ashlar {
namespace {

// Its memory is the host's.
Ops& ref() {
  static const auto ops = make_device("ref", {});
  return *ops;
}

TEST(RowBatch, KeepsRowsOfSequencesApart) {
  RowBatch batch(ref(), 8, 2);
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
  RowBatch batch(ref(), 16, 1);
  const int32_t pages[] = {0};
  batch.begin_sequence(pages, kFirst);
  for (int32_t i = 0; i < kBlock; ++i) batch.add_row(0, kStart + i, kStart + kBlock);
  for (const bool causal : {true, false}) {
    for (int32_t window = 0; window < 20; ++window) {
      std::vector<int32_t> begin(kBlock), end(kBlock);
      ref().visibility(batch.rows(), window, causal, begin.data(), end.data());
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
  RowBatch batch(ref(), 4, 2);
  const int32_t pages[] = {0};
  batch.begin_sequence(pages);
  batch.add_row(5, 8, 12);
  EXPECT_EQ(batch.rows().without_kv, nullptr);
  batch.add_without_kv(6, 9);
  batch.add_row(7, 10, 12);
  ASSERT_NE(batch.rows().without_kv, nullptr);
  for (int32_t r = 0; r < 3; ++r) EXPECT_EQ(batch.rows().is_without_kv(r), r == 1);
  int32_t begin[3], end[3];
  ref().visibility(batch.rows(), 0, true, begin, end);
  EXPECT_EQ(std::vector<int32_t>(end, end + 3), (std::vector<int32_t>{9, 9, 11}));
  ref().visibility(batch.rows(), 0, false, begin, end);
  EXPECT_EQ(std::vector<int32_t>(end, end + 3), (std::vector<int32_t>{12, 9, 12}));
  ref().visibility(batch.rows(), 4, false, begin, end);  // itself is one of the four
  EXPECT_EQ(begin[1], 6);
  EXPECT_EQ(end[1], 9);
  batch.clear();
  batch.begin_sequence(pages);
  batch.add_row(5, 8, 12);
  EXPECT_EQ(batch.rows().without_kv, nullptr);
}

TEST(RowBatchDeath, FullBatchesAbort) {
  RowBatch batch(ref(), 1, 1);
  const int32_t pages[] = {0};
  batch.begin_sequence(pages);
  batch.add_row(0, 0, 1);
  EXPECT_DEATH(batch.add_row(0, 1, 2), "check failed");
  EXPECT_DEATH(batch.begin_sequence(pages), "check failed");
}

TEST(RowBatch, BranchesSeeTheirOwnScratchSlots) {
  RowBatch batch(ref(), 8, 2, 2);
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
    ref().visibility(batch.rows(), 0, true, begin, end);
    EXPECT_EQ(std::vector<int32_t>(begin, begin + 4), (std::vector<int32_t>{3, 3, 3, 0}));
    EXPECT_EQ(std::vector<int32_t>(end, end + 4), (std::vector<int32_t>{17, 18, 19, 1}));
  }
}

}  // namespace
}  // namespace ashlar
