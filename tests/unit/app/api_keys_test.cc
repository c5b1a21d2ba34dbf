// SPDX-License-Identifier: Apache-2.0
#include "app/serve/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::HasSubstr;

class ApiKeys : public testing::Test {
 protected:
  std::vector<std::string> read(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return read_api_keys(path_);
  }
  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
  const std::string path_ = (folder_ / "keys").string();
};

TEST_F(ApiKeys, OneALineWithoutCommentsAndBlanks) {
  EXPECT_EQ(read("# for the web site\n\n  one \r\n\t#two\nthree#3"), (std::vector<std::string>{"one", "three#3"}));
}

TEST_F(ApiKeys, SayWhichLineIsNone) {
  EXPECT_THAT(error_of("one\ntwo words\n"), HasSubstr(path_ + ":2: "));
  EXPECT_THAT(error_of("one\ntwo words\n"), testing::Not(HasSubstr("two words")));
  EXPECT_THAT(error_of("schl\xC3\xBCssel\n"), HasSubstr(":1: "));
  EXPECT_THAT(error_of("# nothing\n\n"), HasSubstr("has no key"));
}

TEST_F(ApiKeys, AFolderIsNoFile) {
  EXPECT_THROW(read_api_keys(folder_.path()), Error);
  try {
    read_api_keys(folder_.path());
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a folder"));
  }
  EXPECT_THROW(read_api_keys("/no/such/file"), Error);
}

// Neither waited for nor read without end.
TEST_F(ApiKeys, PipesDevicesAndLargeFilesAreRefused) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    try {
      read_api_keys(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  testing::AllOf(HasSubstr(path), HasSubstr("not a regular file"), HasSubstr("one API key a line")));
    }
  }
  EXPECT_THAT(error_of(std::string(2 << 20, 'x')), HasSubstr("at most 1048576 are read"));
}

}  // namespace
}  // namespace ashlar
