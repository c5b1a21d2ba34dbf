// SPDX-License-Identifier: Apache-2.0
#include "device/kv/key_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace ashlar {
namespace {

std::vector<float> normal_vector(int32_t n, std::mt19937& random, float deviation = 1) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) value = normal(random);
  return x;
}

double squared_norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return sum;
}

/// Squared error of a vector that was written and read, over its squared norm.
double relative_error(const KvCodec& codec, const std::vector<float>& x) {
  std::vector<float> read = x;
  codec.round(read.data(), static_cast<int32_t>(read.size()));
  for (size_t i = 0; i < x.size(); ++i) read[i] -= x[i];
  return squared_norm(read) / squared_norm(x);
}

TEST(KvCodec, KeepsPlainNumbersAsTheyAre) {
  EXPECT_EQ(kv_codec(KvDType::kBF16), nullptr);
  EXPECT_EQ(kv_codec(KvDType::kF32), nullptr);
}

TEST(KvCodec, Int8IsOffByHalfAStepAtMost) {
  const KvCodec& int8 = *kv_codec(KvDType::kInt8);
  std::mt19937 random(1);
  for (const int32_t n : {2, 10, 80, 128, 512}) {
    for (const float deviation : {1e-20F, 1e-3F, 1.0F, 1e4F}) {
      const std::vector<float> x = normal_vector(n, random, deviation);
      std::vector<float> read = x;
      int8.round(read.data(), n);
      float highest = 0;
      for (const float value : x) highest = std::max(highest, std::abs(value));
      for (size_t i = 0; i < x.size(); ++i) ASSERT_LE(std::abs(read[i] - x[i]), highest / 254 * 1.00001F) << n;
    }
  }
}

const KvCodec* const kAllCodecs[] = {kv_codec(KvDType::kInt8), kv_codec(KvDType::kTq4),
                                     &key_codec(*kv_codec(KvDType::kTq4))};

TEST(KvCodec, VectorsOfZerosStayZeros) {
  for (const KvCodec* codec : kAllCodecs) {
    std::vector<float> x(64);
    codec->round(x.data(), 64);
    EXPECT_EQ(squared_norm(x), 0);
  }
}

TEST(KvCodec, WhatIsNoNumberIsNotHidden) {
  for (const KvCodec* codec : kAllCodecs) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(64, 1.0F);
      x[5] = bad;
      codec->round(x.data(), 64);
      EXPECT_FALSE(std::isfinite(x[0])) << codec->bits();
    }
  }
}

// Each level is the mean of a normal number that is nearer to it than to others: Max's condition, from the error
// function.
TEST(KvCodec, LevelsOfTq4AreTheMeansOfTheirCells) {
  const float* levels = kv_codec(KvDType::kTq4)->levels();
  const auto density = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); };
  const auto below = [](double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; };
  double error = 1;
  for (int i = 0; i < 16; ++i) {
    const double begin = i == 0 ? -40 : (static_cast<double>(levels[i - 1]) + levels[i]) / 2;
    const double end = i == 15 ? 40 : (static_cast<double>(levels[i]) + levels[i + 1]) / 2;
    const double mass = below(end) - below(begin);
    EXPECT_NEAR(levels[i], (density(begin) - density(end)) / mass, 1e-6) << i;
    error -= levels[i] * levels[i] * mass;
  }
  EXPECT_NEAR(error, 0.009501, 1e-6);
}

TEST(KvCodec, TheRotationKeepsProducts) {
  const KvCodec& tq4 = *kv_codec(KvDType::kTq4);
  std::mt19937 random(2);
  for (const int32_t n : {16, 64, 512}) {
    std::vector<float> a = normal_vector(n, random), b = normal_vector(n, random);
    const std::vector<float> original = a;
    double before = 0, after = 0;
    for (size_t i = 0; i < a.size(); ++i) before += static_cast<double>(a[i]) * b[i];
    tq4.rotate(a.data(), n);
    tq4.rotate(b.data(), n);
    for (size_t i = 0; i < a.size(); ++i) after += static_cast<double>(a[i]) * b[i];
    EXPECT_NEAR(before, after, 1e-5 * n);
    tq4.rotate_back(a.data(), n);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], original[i], 1e-5F);
  }
}

/// What rounding to the levels costs a coordinate of a random direction, of variance 1: its density is proportional to
/// (1 - t^2 / n)^((n - 3) / 2).
double expected_error(const float* levels, int32_t n) {
  const double edge = std::sqrt(static_cast<double>(n));
  constexpr int kSteps = 200000;
  double mass = 0, error = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double t = edge * (2 * (i + 0.5) / kSteps - 1);
    const double density = std::pow(1 - t * t / n, (n - 3) / 2.0);
    double nearest = 1e9;
    for (int l = 0; l < 16; ++l) nearest = std::min(nearest, std::abs(t - levels[l]));
    mass += density;
    error += density * nearest * nearest;
  }
  return error / mass;
}

struct MeanErrors {
  double plain = 0, with_outliers = 0;
};

/// Of many normal vectors, and of these with four channels that are ten times as large.
MeanErrors mean_errors(const KvCodec& codec, int32_t n, std::mt19937& random) {
  MeanErrors mean;
  constexpr int kVectors = 4000;
  for (int v = 0; v < kVectors; ++v) {
    std::vector<float> x = normal_vector(n, random);
    mean.plain += relative_error(codec, x) / kVectors;
    for (const size_t channel : {3U, 17U, 40U, 41U}) x[channel] *= 10;
    mean.with_outliers += relative_error(codec, x) / kVectors;
  }
  return mean;
}

TEST(KvCodec, Tq4HasTheErrorOfItsLevels) {
  const KvCodec& tq4 = *kv_codec(KvDType::kTq4);
  std::mt19937 random(3);
  for (const int32_t n : {64, 128}) {
    const auto [plain, with_outliers] = mean_errors(tq4, n, random);
    const double expected = expected_error(tq4.levels(), n);
    std::printf("tq4, heads of %d: squared error %.5f, expected %.5f, with outlying channels %.5f\n", n, plain,
                expected, with_outliers);
    EXPECT_NEAR(plain, expected, 0.01 * expected) << n;
    EXPECT_NEAR(expected, 0.009501, 0.05 * 0.009501) << n;  // of a normal coordinate, whose tails are thicker
    EXPECT_LT(with_outliers, 0.0105) << n;
  }
}

// Steps are even, so the error is a twelfth of a squared step: 2 / 62 of the largest coordinate, whose mean square
// follows from the normal distribution's.
TEST(KvCodec, KeysOfTq4HaveTheErrorOfSixBits) {
  const KvCodec& values = *kv_codec(KvDType::kTq4);
  const KvCodec& keys = key_codec(values);
  EXPECT_EQ(keys.bits(), 6);
  EXPECT_EQ(&key_codec(*kv_codec(KvDType::kInt8)), kv_codec(KvDType::kInt8));
  std::mt19937 random(4);
  for (const int32_t n : {64, 128}) {
    double largest = 0;  // E max^2 = the integral of 2 t (1 - P(|x| < t)^n)
    for (double t = 0.0005; t < 12; t += 0.001) largest += 0.002 * t * (1 - std::pow(std::erf(t / std::sqrt(2.0)), n));
    const double expected = largest / (31.0 * 31.0) / 12;
    const auto [plain, with_outliers] = mean_errors(keys, n, random);
    std::printf("keys of tq4, heads of %d: squared error %.6f, expected %.6f, with outlying channels %.6f\n", n, plain,
                expected, with_outliers);
    EXPECT_NEAR(plain, expected, 0.03 * expected) << n;
    EXPECT_LT(with_outliers, 1.15 * expected) << n;
  }
  std::vector<float> a = normal_vector(64, random), b = a;  // queries are rotated once, for both
  keys.rotate(a.data(), 64);
  values.rotate(b.data(), 64);
  EXPECT_EQ(a, b);
}

// Tokens depend on them. Computed apart, from the definition.
TEST(KvCodec, CodesOfTq4AreFixed) {
  std::vector<float> x(16);
  for (int32_t i = 0; i < 16; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i * i * 7 % 31 - 11);
  x[0] = -10;  // makes the sum odd, so that no coordinate is zero, between two levels
  CodedVector coded;
  kv_codec(KvDType::kTq4)->encode(x.data(), 16, coded);
  EXPECT_THAT(std::vector<int>(coded.codes, coded.codes + 16),
              ::testing::ElementsAre(5, 9, 11, 2, 7, 8, 2, 8, 9, 11, 7, 6, 6, 12, 3, 2));
  EXPECT_NEAR(coded.scale, 8.325413, 1e-5);
}

TEST(KvCodec, NamesTheSizesThatTq4Takes) {
  for (const int32_t good : {16, 64, 128, 256, 512}) kv_codec(KvDType::kTq4)->check(good);
  for (const int32_t bad : {8, 80, 96, 1024}) {
    try {
      kv_codec(KvDType::kTq4)->check(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("heads of " + std::to_string(bad)));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("int8"));
    }
  }
  kv_codec(KvDType::kInt8)->check(80);
}

}  // namespace
}  // namespace ashlar
