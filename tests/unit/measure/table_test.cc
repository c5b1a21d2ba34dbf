// SPDX-License-Identifier: Apache-2.0
#include "measure/report/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ashlar {
namespace {

TEST(Table, AlignsByCharacters) {
  TextTable table({"name", "n ± e"});
  table.add({"a", "1"});
  table.add({"longer", "10.5 ± 2"});
  EXPECT_EQ(table.render(1),
            " name       n ± e\n"
            " ------  --------\n"
            " a              1\n"
            " longer  10.5 ± 2\n");
}

TEST(Table, Numbers) {
  EXPECT_EQ(fixed(1.005, 1), "1.0");
  EXPECT_EQ(fixed(std::numeric_limits<double>::quiet_NaN(), 1), "-");
  EXPECT_EQ(percent(0.1234), "12.3 %");
  EXPECT_EQ(three_digits(0.1234), "0.123");
  EXPECT_EQ(three_digits(9.999), "10.0");
  EXPECT_EQ(three_digits(12.34), "12.3");
  EXPECT_EQ(three_digits(1234.5), "1234");
}

}  // namespace
}  // namespace ashlar
