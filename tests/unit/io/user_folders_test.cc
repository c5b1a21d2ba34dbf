// SPDX-License-Identifier: Apache-2.0
// Against the words of the XDG Base Directory Specification.

#include "io/user_folders.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ashlar {
namespace {

struct Place {
  UserFolder folder;
  const char* variable;
  const char* default_folder;
};

class UserFolders : public ::testing::TestWithParam<Place> {
 protected:
  UserFolders() {
    setenv("HOME", "/home/someone", 1);
    unsetenv(GetParam().variable);
  }
  ~UserFolders() override { unsetenv(GetParam().variable); }
};

TEST_P(UserFolders, TheVariableComesBeforeTheHome) {
  EXPECT_EQ(user_folder(GetParam().folder), GetParam().default_folder);
  setenv(GetParam().variable, "/elsewhere", 1);
  EXPECT_EQ(user_folder(GetParam().folder), "/elsewhere/ashlar");
}

TEST_P(UserFolders, APathThatIsNotAbsoluteCountsAsNone) {
  for (const char* ignored : {"", "relative", "~/cache"}) {
    setenv(GetParam().variable, ignored, 1);
    EXPECT_EQ(user_folder(GetParam().folder), GetParam().default_folder) << ignored;
  }
}

TEST_P(UserFolders, WithoutAHomeThereIsNone) {
  for (const bool empty : {false, true}) {
    if (empty) setenv("HOME", "", 1);
    if (!empty) unsetenv("HOME");
    EXPECT_EQ(user_folder(GetParam().folder), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Xdg, UserFolders,
    ::testing::Values(Place{UserFolder::kCache, "XDG_CACHE_HOME", "/home/someone/.cache/ashlar"},
                      Place{UserFolder::kConfig, "XDG_CONFIG_HOME", "/home/someone/.config/ashlar"},
                      Place{UserFolder::kState, "XDG_STATE_HOME", "/home/someone/.local/state/ashlar"}),
    [](const auto& test) { return std::string(test.param.variable); });

}  // namespace
}  // namespace ashlar
