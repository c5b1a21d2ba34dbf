// SPDX-License-Identifier: Apache-2.0
#include "session/progress.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(ProgressLine, ShowsShareCountAndTimeLeft) {
  const std::string line = progress_line("eval", 12, 48, 10, 80);
  EXPECT_EQ(line, "eval  [#######.......................]  25 %  12 of 48  00:30 left");
}

TEST(ProgressLine, FitsAnyWidth) {
  for (int width = 0; width < 120; ++width) {
    for (int done = 0; done <= 3; ++done)
      EXPECT_LE(progress_line("a label", done, 3, 5, width).size(), std::max(0, width - 1));
  }
}

TEST(ProgressLine, StandsNothingOnItsHead) {
  EXPECT_NE(progress_line("x", 0, 0, 0, 80).find("0 %"), std::string::npos);
  EXPECT_NE(progress_line("x", 9, 3, 1, 80).find("100 %"), std::string::npos);
}

TEST(ProgressLine, CountsBytesForPeople) {
  // 1 GB of 4 was there before; 1 more came in 10 s, so 2 GB take 20 s.
  EXPECT_EQ(progress_line("x", 2'000'000'000, 4'000'000'000, 10, 90, ProgressUnit::kBytes, 1'000'000'000),
            "x  [###############...............]  50 %  2.00 GB of 4.00 GB  100 MB/s  00:20 left");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.00 kB");
  EXPECT_EQ(bytes_text(12'345'678), "12.3 MB");
  EXPECT_EQ(bytes_text(999'999), "1.00 MB");
}

TEST(Progress, IsSilentWithoutATerminal) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("quiet", 2);
    progress.update(1);
    const Activity activity("quiet too");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace ashlar
