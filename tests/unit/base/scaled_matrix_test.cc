// SPDX-License-Identifier: Apache-2.0
#include "base/scaled_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <vector>

namespace ashlar {
namespace {

// Sign, exponent and mantissa by the definition of the OCP formats, in double.
double small_float(int code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
  const double fraction = static_cast<double>(code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits);
  const double sign = (code >> (exponent_bits + mantissa_bits) & 1) != 0 ? -1 : 1;
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

std::vector<std::byte> all_bytes() {
  std::vector<std::byte> bytes(256);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

TEST(SmallNumbers, MeanWhatTheirFormatsSay) {
  const std::vector<std::byte> bytes = all_bytes();
  const auto e4m3 = SmallNumbers::in_rows(bytes.data(), SmallNumbers::Kind::kE4M3, 8, 256);
  const auto whole = SmallNumbers::in_rows(bytes.data(), SmallNumbers::Kind::kSigned, 8, 256);
  for (int code = 0; code < 256; ++code) {
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(e4m3.at(0, code)));
    } else {
      EXPECT_EQ(e4m3.at(0, code), small_float(code, 4, 3)) << code;
    }
    EXPECT_EQ(whole.at(0, code), code < 128 ? code : code - 256);
  }
  const auto e2m1 = SmallNumbers::in_rows(bytes.data(), SmallNumbers::Kind::kE2M1, 4, 1);
  const auto nibble = SmallNumbers::in_rows(bytes.data(), SmallNumbers::Kind::kSigned, 4, 1);
  const auto pair = SmallNumbers::in_rows(bytes.data(), SmallNumbers::Kind::kUnsigned, 2, 1);
  for (int byte = 0; byte < 256; ++byte) {
    for (int i = 0; i < 2; ++i) {
      const int code = byte >> (4 * i) & 15;
      EXPECT_EQ(e2m1.at(byte, i), small_float(code, 2, 1));
      EXPECT_EQ(nibble.at(byte, i), code < 8 ? code : code - 16);
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.at(byte, i), byte >> (2 * i) & 3);
  }
}

TEST(Scales, OfPowersOfTwoReachBothEnds) {
  const std::vector<std::byte> bytes = all_bytes();
  Scales scales;
  scales.data = bytes.data();
  scales.type = Scales::Type::kE8M0;
  scales.col_stride = 1;
  for (int code = 0; code < 255; ++code) EXPECT_EQ(scales.at(0, code), std::ldexp(1.0, code - 127)) << code;
  EXPECT_TRUE(std::isnan(scales.at(0, 255)));
}

// [2, 64] of signed bytes, groups of 32 columns.
struct Example {
  Example() {
    std::iota(numbers.begin(), numbers.end(), int8_t{-64});
    matrix.rows = 2;
    matrix.cols = 64;
    matrix.numbers =
        SmallNumbers::in_rows(reinterpret_cast<const std::byte*>(numbers.data()), SmallNumbers::Kind::kSigned, 8, 64);
    matrix.scales.data = reinterpret_cast<const std::byte*>(scales.data());
    matrix.scales.row_stride = 8;
    matrix.scales.col_stride = 4;
    matrix.scale_cols = 32;
  }
  std::vector<int8_t> numbers = std::vector<int8_t>(128);
  std::vector<float> scales = {0.5F, 2, 3, 0.25F};
  std::vector<int32_t> order = std::vector<int32_t>(64);
  ScaledMatrix matrix;
};

TEST(ScaledMatrix, DecodesFromAnyColumnOn) {
  Example example;
  for (const bool ordered : {false, true}) {
    for (size_t i = 0; i < 64; ++i) example.order[i] = static_cast<int32_t>(i * 5 % 2);
    example.matrix.column_groups = ordered ? reinterpret_cast<const std::byte*>(example.order.data()) : nullptr;
    for (const auto& [col, n] : {std::pair{0, 64}, {3, 50}, {31, 2}, {32, 32}, {63, 1}}) {
      std::vector<float> got(static_cast<size_t>(n));
      for (int64_t row = 0; row < 2; ++row) {
        example.matrix.decode(row, col, n, got.data());
        for (int i = 0; i < n; ++i) {
          const int64_t group = ordered ? (col + i) * 5 % 2 : (col + i) / 32;
          const auto number = static_cast<float>(row * 64 + col + i - 64);
          ASSERT_EQ(got[static_cast<size_t>(i)], number * example.scales[static_cast<size_t>(row * 2 + group)]);
        }
      }
    }
  }
}

TEST(ScaledMatrix, RowsThatShareAScaleShareAZeroPoint) {
  Example example;
  const std::vector<int8_t> zeros = {3, 5, 9, 9};  // one row of two groups, then what is not its own
  example.matrix.scale_rows = 2;
  example.matrix.zeros =
      SmallNumbers::in_rows(reinterpret_cast<const std::byte*>(zeros.data()), SmallNumbers::Kind::kSigned, 8, 2);
  for (const auto& [col, zero, scale] : {std::tuple{0, 3, 0.5F}, {32, 5, 2.0F}}) {
    float got = 0;
    example.matrix.decode(1, col, 1, &got);
    EXPECT_EQ(got, static_cast<float>(col - zero) * scale);
  }
}

TEST(ScaledMatrix, FindsWhatIsNoNumber) {
  Example example;
  EXPECT_TRUE(example.matrix.is_finite(0));
  example.scales[3] = INFINITY;
  EXPECT_TRUE(example.matrix.is_finite(0));
  EXPECT_FALSE(example.matrix.is_finite(1));
  example.scales[3] = 1e38F;  // times 127
  EXPECT_FALSE(example.matrix.is_finite(1));
  example.scales[3] = 1;
  example.matrix.numbers.kind = SmallNumbers::Kind::kE4M3;
  example.numbers.assign(128, 0);
  EXPECT_TRUE(example.matrix.is_finite(1));
  example.numbers[127] = 127;
  EXPECT_FALSE(example.matrix.is_finite(1));
}

TEST(ScaledMatrix, OfBytesWithUnevenZeroPointsNeedsMoreThanBytes) {
  Example example;
  EXPECT_EQ(example.matrix.bits_in_groups_of_32(), 8);
  example.matrix.zero = 1;
  EXPECT_EQ(example.matrix.bits_in_groups_of_32(), 16);
  example.matrix.zero = 128;
  example.matrix.numbers.kind = SmallNumbers::Kind::kUnsigned;
  EXPECT_EQ(example.matrix.bits_in_groups_of_32(), 8);
  std::vector<int8_t> zeros = {0, 0, 0, 1};
  example.matrix.zeros =
      SmallNumbers::in_rows(reinterpret_cast<const std::byte*>(zeros.data()), SmallNumbers::Kind::kSigned, 8, 2);
  EXPECT_EQ(example.matrix.bits_in_groups_of_32(), 16);
  zeros[3] = 0;
  EXPECT_EQ(example.matrix.bits_in_groups_of_32(), 8);
}

}  // namespace
}  // namespace ashlar
