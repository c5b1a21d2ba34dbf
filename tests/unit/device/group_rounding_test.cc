// SPDX-License-Identifier: Apache-2.0
#include "device/weights/group_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ashlar {
namespace {

float value_of(const RoundedGroup& group, int32_t bits, int i) {
  const auto whole = static_cast<float>(group.wholes[i]);
  return (bits == 4 ? to_float(group.lowest) : 0) + to_float(group.scale) * whole;
}

// Off by half a step of the largest value at most, whatever the step that was found.
TEST(GroupRounding, IsNeverWorseThanStepsOfTheLargestValue) {
  std::mt19937 random(5);
  for (const int32_t top : {1, 7, 100, 126, 127, 128, 130, 141, 142, 255}) {
    std::vector<float> values(kRoundedTogether);
    for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random() % (2 * top + 1)) - top) / 64;
    values[3] = static_cast<float>(top) / 64;
    const RoundedGroup group = round_group(values.data(), kRoundedTogether, 8);
    for (int i = 0; i < kRoundedTogether; ++i) {
      const float got = value_of(group, 8, i), want = values[static_cast<size_t>(i)];
      const float half_a_step = values[3] / 127 * 0.51F;  // and f16's rounding of it
      EXPECT_NEAR(got, want, top <= 127 ? 0 : half_a_step + values[3] * 0x1p-11F) << top;
    }
  }
}

// What has no step in f16 is rounded to zeros or to what f16 ends with, and ends the search for one.
TEST(GroupRounding, TakesGroupsOfAnySize) {
  for (const float top : {1e-45F, 1e-44F, 9e-44F, 1e-30F, 1e-8F, 1e4F, 1e9F, 3e38F, 3.3e38F}) {
    for (const float part : {0.0F, 0.22F, 0.36F, 0.38F, 0.39F, 0.5F}) {
      std::vector<float> values(kRoundedTogether, top * part);
      values[1] = top;
      values[2] = -top * part;
      for (const int32_t bits : {4, 8}) {
        const RoundedGroup group = round_group(values.data(), kRoundedTogether, bits);
        const bool fits = top > 1e-4F && top < 1e4F;
        EXPECT_TRUE(!fits || std::abs(value_of(group, bits, 1) - top) < top / 8) << top << " " << bits;
      }
    }
  }
}

// Short groups have zeros after their values, and what is no number counts as 0.
TEST(GroupRounding, FillsWhatIsMissingWithZeros) {
  for (const int32_t bits : {4, 8}) {
    std::vector<float> values = {1, INFINITY, -1, NAN, 0.5F};
    const RoundedGroup group = round_group(values.data(), 5, bits);
    EXPECT_NEAR(value_of(group, bits, 0), 1, 1e-3);
    EXPECT_NEAR(value_of(group, bits, 1), 0, 0.07);
    EXPECT_NEAR(value_of(group, bits, 3), 0, 0.07);
    EXPECT_TRUE(
        std::all_of(group.wholes + 5, group.wholes + kRoundedTogether, [](int8_t whole) { return whole == 0; }));
  }
}

}  // namespace
}  // namespace ashlar
