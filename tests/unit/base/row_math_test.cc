#include "base/row_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ashlar::testing {
namespace {

TEST(Argmax, FindsTheFirstOfTheLargestAtEveryLengthAndPlace) {
  for (int32_t n = 1; n <= 70; ++n) {
    for (int32_t at = 0; at < n; ++at) {
      std::vector<float> values(n, -5.0F);
      values[at] = 2.0F;
      EXPECT_EQ(argmax(values.data(), n), at);
      values[n - 1] = 2.0F;
      EXPECT_EQ(argmax(values.data(), n), at);
    }
  }
}

TEST(Argmax, SkipsWhatIsNotANumber) {
  std::vector<float> values(40, std::nanf(""));
  EXPECT_EQ(argmax(values.data(), 40), 0);
  values[33] = -7.0F;
  EXPECT_EQ(argmax(values.data(), 40), 33);
  values.assign(40, -INFINITY);
  EXPECT_EQ(argmax(values.data(), 40), 0);
}

TEST(ExpSum, AgreesWithTheLibrary) {
  std::mt19937 random(1);
  for (const float spread : {0.1F, 2.0F, 30.0F, 500.0F}) {
    for (const int32_t n : {1, 7, 8, 9, 1000, 8191}) {
      for (const float inverse : {0.5F, 1.0F, 1.0F / 0.7F}) {
        std::normal_distribution<float> normal(3.0F, spread);
        std::vector<float> values(n);
        for (float& value : values) value = normal(random);
        const float highest = values[argmax(values.data(), n)];
        double expected = 0;
        for (const float value : values) expected += std::exp((static_cast<double>(value) - highest) * inverse);
        EXPECT_NEAR(exp_sum(values.data(), n, highest, inverse) / expected, 1.0, 2e-5) << spread << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
