// SPDX-License-Identifier: Apache-2.0
#include "device/weights/weight_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace ashlar {
namespace {

// Every number of 16 bits against the definition of its format, in arithmetic of double.
double weights_by_definition(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1)) / (1 << mantissa_bits);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias));
}

TEST(WeightSource, DecodesEveryNumberOf16Bits) {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  for (const Scheme scheme : {Scheme::kF16, Scheme::kBF16}) {
    const WeightPart part("w", scheme, bits.data(), 256, 256);
    std::vector<float> got(bits.size());
    decode_rows(part, 0, 256, got.data());
    for (size_t i = 0; i < bits.size(); ++i) {
      const double want =
          scheme == Scheme::kF16 ? weights_by_definition(bits[i], 5, 10) : weights_by_definition(bits[i], 8, 7);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_EQ(got[i], want) << i;
        ASSERT_EQ(std::signbit(got[i]), std::signbit(want)) << i;
      }
    }
  }
}

TEST(WeightSource, DecodesRowsOfAnyAlignmentAndStride) {
  std::vector<float> values(60);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.125F;
  std::vector<std::byte> bytes(1 + values.size() * sizeof(float));
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(float));
  WeightPart part("w", Scheme::kF32, bytes.data() + 1, 5, 12);
  std::vector<float> got(24);
  decode_rows(part, 2, 4, got.data());
  EXPECT_EQ(got, std::vector<float>(values.begin() + 24, values.begin() + 48));
  part.cols = 7;  // of rows twelve apart
  got.resize(7);
  decode_rows(part, 3, 4, got.data());
  EXPECT_EQ(got, std::vector<float>(values.begin() + 36, values.begin() + 43));
}

TEST(WeightSource, StacksPartsOfDifferentSchemes) {
  const float wide[] = {1, 2, 3, 4};
  const uint16_t bf16[] = {0x3F80, 0x4000};  // 1, 2
  const uint16_t f16[] = {0x3C00, 0xC000};   // 1, -2
  const WeightPart first("a", Scheme::kF32, wide, 2, 2);
  const WeightPart second("b", Scheme::kBF16, bf16, 1, 2);
  const WeightPart third("c", Scheme::kF16, f16, 1, 2);
  const WeightSource source{{first, second, third}, {}};
  EXPECT_EQ(source.rows(), 4);
  EXPECT_EQ(source.cols(), 2);
  EXPECT_EQ(source.precision(), DType::kF32);
  EXPECT_EQ((WeightSource{{second, second}, {}}).precision(), DType::kBF16);
  EXPECT_EQ((WeightSource{{second, third}, {}}).precision(), DType::kF32);
  const std::vector<std::vector<float>> want = {{1, 2}, {3, 4}, {1, 2}, {1, -2}};
  for (int64_t row = 0; row < 4; ++row) {
    std::vector<float> got(2);
    decode_row(source, row, got.data());
    EXPECT_EQ(got, want[static_cast<size_t>(row)]) << row;
  }
}

TEST(WeightSource, FindsTheFirstNumberThatIsNotFinite) {
  for (const size_t at : {0, 1, 6, 7, 13, 20}) {
    std::vector<float> values(21, std::numeric_limits<float>::max());
    EXPECT_EQ(first_not_finite({"w", Scheme::kF32, values.data(), 3, 7}), std::nullopt);
    values[at] = -INFINITY;
    values[20] = NAN;
    EXPECT_EQ(first_not_finite({"w", Scheme::kF32, values.data(), 3, 7}), static_cast<int64_t>(at));
  }
}

// Two heads of six rows, whose halves are interleaved in the file.
TEST(WeightSource, ReadsInterleavedHeadsInTheirOwnOrder) {
  const std::vector<float> stored = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
  WeightPart part("w", Scheme::kF32, stored.data(), 12, 1);
  part.values.interleaved = {6, 6};
  std::vector<float> got(12);
  decode_rows(part, 0, 12, got.data());
  EXPECT_EQ(got, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  decode_rows(part.block(6, 6, 0, 1), 0, 6, got.data());
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 6), (std::vector<float>{6, 7, 8, 9, 10, 11}));
}

}  // namespace
}  // namespace ashlar
