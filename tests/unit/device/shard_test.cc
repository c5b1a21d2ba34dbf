#include "device/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

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
  source.parts[0].values.interleaved = 4;
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

// Numbers in groups of 32 in 18 bytes, with scales of 2 bytes for each 64 columns.
WeightPart grouped(const std::byte* data, const std::byte* scales, int64_t cols) {
  WeightPart part("layers.3.down_proj", Scheme::kF32, data, 4, cols);
  part.values = {data, cols / 32 * 18, 32, 18};
  part.scales = {scales, cols / 64 * 2, 64, 2};
  return part;
}

TEST(Shard, CutsScalesWithTheirNumbers) {
  std::vector<std::byte> data(256 * 18), scales(256);
  const WeightSource source{{grouped(data.data(), scales.data(), 256)}, {}};
  const WeightSource columns = cut(source, {1, 2, kInputs});
  EXPECT_EQ(columns.parts[0].cols, 128);
  EXPECT_EQ(columns.parts[0].values.data - data.data(), 4 * 18);
  EXPECT_EQ(columns.parts[0].values.stride, 8 * 18);
  EXPECT_EQ(columns.parts[0].scales.data - scales.data(), 2 * 2);
  EXPECT_EQ(columns.parts[0].zeros.data, nullptr);
  const WeightSource rows = cut(source, {1, 2, kOutputs});
  EXPECT_EQ(rows.parts[0].rows, 2);
  EXPECT_EQ(rows.parts[0].values.data - data.data(), 2 * 8 * 18);
  EXPECT_EQ(rows.parts[0].scales.data - scales.data(), 2 * 4 * 2);
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
  // 192 columns divide, but not at the border of a group of scales.
  const std::vector<std::byte> bytes(4 * 6 * 18);
  EXPECT_EQ(refused({{grouped(bytes.data(), bytes.data(), 192)}, {}}, {1, 2, kInputs}),
            "[weights] tensor layers.3.down_proj: cannot be cut among 2 ranks: expected a multiple of 128 inputs "
            "(groups of 64), found 192");
}

}  // namespace
}  // namespace ashlar
