// SPDX-License-Identifier: Apache-2.0
#include "io/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "io/mapped_file.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

TEST(DurableFile, TakesItsPlaceAtTheCommit) {
  const TempFolder folder;
  folder.write("x", "old");
  DurableFile file(folder / "x");
  file.write(std::string_view("ne"));
  file.write(std::string_view("w"));
  EXPECT_EQ(read_text_file(folder / "x", 100), "old");
  file.commit();
  EXPECT_EQ(read_text_file(folder / "x", 100), "new");
  EXPECT_THAT(names_in(folder.path()), ::testing::ElementsAre("x"));
}

TEST(DurableFile, GoesAwayWithoutCommit) {
  const TempFolder folder;
  folder.write("x", "old");
  { DurableFile(folder / "x").write(std::string_view("half")); }
  EXPECT_EQ(read_text_file(folder / "x", 100), "old");
  EXPECT_THAT(names_in(folder.path()), ::testing::ElementsAre("x"));
}

TEST(DurableFile, NamesTheFileThatCannotBe) {
  const TempFolder folder;
  try {
    write_durably(folder / "nowhere" / "x", "text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("nowhere/x: cannot be opened for writing: No such file"));
  }
}

// A limit of the process is met as a full disk is: after a part of what was to be written.
TEST(DurableFile, SaysThatTheDiskIsFull) {
  const TempFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit little = before;
  little.rlim_cur = 2;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  std::string why;
  try {
    DurableFile(folder / "x").write(std::string_view("text"));
  } catch (const Error& error) {
    why = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(why, ::testing::HasSubstr("x: cannot be written: File too large"));
  EXPECT_THAT(names_in(folder.path()), ::testing::IsEmpty());
}

// What another program of the same number left in the midst of writing is no obstacle, and stays.
TEST(DurableFile, WritersDoNotMeet) {
  const TempFolder folder;
  const std::string left = "x" + std::string(kUnfinished) + std::to_string(getpid()) + "-0";
  folder.write(left, "left");
  DurableFile one(folder / "x"), other(folder / "x");
  one.write(std::string_view("one"));
  other.write(std::string_view("other"));
  other.commit();
  EXPECT_EQ(read_text_file(folder / "x", 100), "other");
  one.commit();
  EXPECT_EQ(read_text_file(folder / "x", 100), "one");
  EXPECT_EQ(read_text_file(folder / left, 100), "left");
  // It goes where it is asked for, and nothing that only begins alike.
  folder.write("x.new-year", "mine");
  folder.write("x.new-1-0.txt", "mine");
  remove_unfinished(folder / "x");
  EXPECT_THAT(names_in(folder.path()), ::testing::UnorderedElementsAre("x", "x.new-year", "x.new-1-0.txt"));
  // Of a folder: what no process writes any more. The parent of this one runs.
  const std::string written = "y.new-" + std::to_string(getppid()) + "-0";
  for (const std::string& name :
       {std::string("y.new-2000000000-3"), std::string("z.new-2000000000-3"), written, left}) {
    folder.write(name, "begun");
  }
  remove_abandoned(folder.path(), [](std::string_view name) { return name != "z"; });
  EXPECT_THAT(names_in(folder.path()),
              ::testing::UnorderedElementsAre("x", "x.new-year", "x.new-1-0.txt", written, "z.new-2000000000-3"));
}

}  // namespace
}  // namespace ashlar
