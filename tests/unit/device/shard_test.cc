// SPDX-License-Identifier: Apache-2.0
#include "device/weights/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/e4m3.h"
#include "base/error.h"
#include "device/weights/e4m3_rows.h"

namespace ashlar {
namespace {

constexpr auto kOutputs = Shard::Axis::kOutputs;
constexpr auto kInputs = Shard::Axis::kInputs;

std::vector<float> values_of(const WeightSource& source) {
  std::vector<float> values(static_cast<size_t>(source.rows() * source.cols()));
  for (int64_t row = 0; row < source.rows(); ++row) decode_row(source, row, values.data() + row * source.cols());
  return values;
}

std::vector<float> counting(size_t n, float from) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), from);
  return values;
}

// Of queries [4, 6] and keys [2, 6] the second of two ranks has the last two and the last one.
TEST(Shard, CutsEachPartByItsOutputs) {
  const std::vector<float> q = counting(24, 0);
  const std::vector<float> k = counting(12, 100);
  const WeightSource source{{{"q", Scheme::kF32, q.data(), 4, 6}, {"k", Scheme::kF32, k.data(), 2, 6}},
                            {0, 1, 2, 3, 10, 11}};
  const WeightSource second = cut(source, {1, 2, kOutputs});
  std::vector<float> want(q.begin() + 12, q.end());
  want.insert(want.end(), k.begin() + 6, k.end());
  EXPECT_EQ(values_of(second), want);
  EXPECT_EQ(second.bias, (std::vector<float>{2, 3, 11}));
  EXPECT_EQ(cut(source, {0, 2, kOutputs}).bias, (std::vector<float>{0, 1, 10}));
}

TEST(Shard, CutsInterleavedHeadsWhole) {
  const std::vector<float> stored = {0, 2, 1, 3, 4, 6, 5, 7};  // two heads of four rows
  WeightSource source{{{"q", Scheme::kF32, stored.data(), 8, 1}}, {}};
  source.parts[0].values.interleaved = {4, 4};
  EXPECT_EQ(values_of(cut(source, {1, 2, kOutputs})), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_THROW(cut(source, {0, 4, kOutputs}), Error);
}

TEST(Shard, CutsAlongTheInputs) {
  const std::vector<float> values = counting(24, 0);
  const WeightSource source{{{"w", Scheme::kF32, values.data(), 4, 6}}, {1, 2, 3, 4}};
  EXPECT_EQ(values_of(cut(source, {0, 3, kInputs})), (std::vector<float>{0, 1, 6, 7, 12, 13, 18, 19}));
  EXPECT_EQ(values_of(cut(source, {2, 3, kInputs})), (std::vector<float>{4, 5, 10, 11, 16, 17, 22, 23}));
  EXPECT_EQ(cut(source, {0, 3, kInputs}).bias, source.bias);  // which is added once
  EXPECT_TRUE(cut(source, {2, 3, kInputs}).bias.empty());
  // A cut of a cut: rows keep their stride.
  const WeightSource both = cut(cut(source, {1, 2, kOutputs}), {1, 2, kInputs});
  EXPECT_EQ(values_of(both), (std::vector<float>{15, 16, 17, 21, 22, 23}));
}

TEST(Shard, OneRankHasTheWhole) {
  const std::vector<float> values = counting(15, 0);
  const WeightSource source{{{"w", Scheme::kF32, values.data(), 3, 5}}, {1, 2, 3}};
  for (const auto axis : {kOutputs, kInputs}) {
    const WeightSource whole = cut(source, {.axis = axis});
    EXPECT_EQ(values_of(whole), values);
    EXPECT_EQ(whole.bias, source.bias);
  }
}

// Bytes with a scale for each 64 columns of a row.
TEST(Shard, CutsNumbersWithTheirScales) {
  std::vector<int8_t> numbers(4 * 256);
  std::iota(numbers.begin(), numbers.end(), int8_t{0});
  const std::vector<float> scales = counting(4 * 4, 1);
  ScaledMatrix matrix;
  matrix.rows = 4;
  matrix.cols = 256;
  matrix.numbers =
      SmallNumbers::in_rows(reinterpret_cast<const std::byte*>(numbers.data()), SmallNumbers::Kind::kSigned, 8, 256);
  matrix.scales.data = reinterpret_cast<const std::byte*>(scales.data());
  matrix.scales.row_stride = 16;
  matrix.scales.col_stride = 4;
  matrix.scale_cols = 64;
  const WeightSource source{{{"layers.3.down_proj", matrix}}, {}};
  const std::vector<float> whole = values_of(source);
  EXPECT_EQ(whole[3 * 256 + 200], static_cast<float>(numbers[3 * 256 + 200]) * scales[3 * 4 + 3]);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const std::vector<float> columns = values_of(cut(source, {rank, 2, kInputs}));
    ASSERT_EQ(columns.size(), 4u * 128);
    for (int r = 0; r < 4; ++r) {
      for (int c = 0; c < 128; ++c) ASSERT_EQ(columns[r * 128 + c], whole[r * 256 + rank * 128 + c]);
    }
    const std::vector<float> rows = values_of(cut(source, {rank, 2, kOutputs}));
    EXPECT_EQ(rows, std::vector<float>(whole.begin() + rank * 512, whole.begin() + rank * 512 + 512));
  }
  EXPECT_THROW(cut(source, {0, 16, kInputs}), Error) << "groups of 32 stay whole";
}

// A scale for each 128 columns, or for all of a row.
TEST(Shard, CutsE4M3BetweenItsScales) {
  std::vector<uint8_t> codes(4 * 512);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7 % 127);
  const std::vector<float> scales = counting(4 * 4, 1);
  for (const int64_t scale_cols : {128, 512}) {
    ScaledMatrix matrix;
    matrix.rows = 4;
    matrix.cols = 512;
    matrix.numbers =
        SmallNumbers::in_rows(reinterpret_cast<const std::byte*>(codes.data()), SmallNumbers::Kind::kE4M3, 8, 512);
    matrix.scales.data = reinterpret_cast<const std::byte*>(scales.data());
    matrix.scales.row_stride = 16;
    matrix.scales.col_stride = 4;
    matrix.scale_cols = scale_cols;
    const WeightSource source{{{"layers.3.down_proj", matrix}}, {}};
    EXPECT_EQ(source.numbers(), Numbers::kE4M3);
    const std::vector<float> whole = values_of(source);
    for (int32_t rank = 0; rank < 2; ++rank) {
      const WeightSource half = cut(source, {rank, 2, kInputs});
      EXPECT_EQ(half.numbers(), Numbers::kE4M3);
      const std::vector<float> columns = values_of(half);
      for (int r = 0; r < 4; ++r) {
        uint8_t row[256];
        float of_row[2];
        read_e4m3_row(half, r, row, of_row);
        for (int c = 0; c < 256; ++c) {
          ASSERT_EQ(columns[r * 256 + c], whole[r * 512 + rank * 256 + c]);
          ASSERT_EQ(e4m3_value(row[c]) * of_row[c / 128], columns[r * 256 + c]);
        }
      }
    }
    EXPECT_THROW(cut(source, {0, 8, kInputs}), Error) << "groups of 128 stay whole";
  }
}

TEST(Shard, SaysWhatDoesNotDivide) {
  const auto refused = [](const WeightSource& source, const Shard& shard) -> std::string {
    try {
      cut(source, shard);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::vector<float> values(60);
  const WeightSource source{
      {{"a", Scheme::kF32, values.data(), 4, 6}, {"layers.0.k_proj", Scheme::kF32, values.data(), 6, 6}}, {}};
  EXPECT_EQ(refused(source, {0, 2, kOutputs}), "");
  EXPECT_EQ(refused(source, {0, 4, kOutputs}),
            "[weights] tensor layers.0.k_proj: cannot be cut among 4 ranks: expected a multiple of 4 outputs, found 6");
  EXPECT_EQ(refused(source, {0, 4, kInputs}),
            "[weights] tensor a: cannot be cut among 4 ranks: expected a multiple of 4 inputs, found 6");
  // 96 columns divide, but not at the border of a block.
  const std::vector<std::byte> bytes(4 * 3 * 18);
  EXPECT_EQ(refused({{{"layers.3.down_proj", Scheme::kQ4_0, bytes.data(), 4, 96}}, {}}, {1, 2, kInputs}),
            "[weights] tensor layers.3.down_proj: cannot be cut among 2 ranks: expected a multiple of 64 inputs "
            "(groups of 32), found 96");
}

}  // namespace
}  // namespace ashlar
