#include "app/progress.h"

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

TEST(Progress, IsSilentWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("quiet", 2);
    progress.update(1);
    const Activity activity("quiet too");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace ashlar
