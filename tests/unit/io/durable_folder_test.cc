// SPDX-License-Identifier: Apache-2.0
#include "io/durable_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>

#include "base/error.h"
#include "io/folder_lock.h"
#include "io/mapped_file.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

// Two files that belong together.
void write_both(const fs::path& folder, const std::string& text) {
  for (const char* name : {"a", "b"}) std::ofstream(folder / name) << text;
}
void replace(const fs::path& path, const std::string& text) {
  DurableFolder folder(path);
  write_both(folder.fresh(), text);
  folder.commit();
}
std::string content(const fs::path& folder) {
  const std::string a = read_text_file(folder / "a", 100), b = read_text_file(folder / "b", 100);
  return a == b ? a : "torn: " + a + ", " + b;
}

TEST(DurableFolder, TakesItsPlaceAtTheCommitAndKeepsTheOneBefore) {
  const TempFolder folder;
  const fs::path path = folder / "x/";
  replace(path, "1");
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("x"));
  replace(path, "2");
  replace(path, "3");
  EXPECT_EQ(content(path), "3");
  EXPECT_EQ(content(DurableFolder::previous(path)), "2");
  {
    const DurableFolder given_up(path);
    write_both(given_up.fresh(), "4");
    EXPECT_THROW(DurableFolder{path}, Error);  // one at a time
  }
  EXPECT_EQ(content(path), "3");
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("x", "x.previous"));
}

TEST(DurableFolder, UndoesACommit) {
  const TempFolder folder;
  const fs::path path = folder / "x";
  replace(path, "bad");
  DurableFolder::undo(path);
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("x.rejected"));
  replace(path, "1");
  replace(path, "2");
  replace(path, "worse");
  DurableFolder::undo(path);
  EXPECT_EQ(content(path), "2");
  EXPECT_EQ(content(DurableFolder::rejected(path)), "worse");
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("x", "x.rejected"));
  EXPECT_THAT(entries_of(path), UnorderedElementsAre("a", "b"));
  replace(path, "3");  // and all goes on
  EXPECT_EQ(content(DurableFolder::previous(path)), "2");
  fs::remove(DurableFolder::rejected(path) / DurableFolder::kMark);  // somebody wants to keep it
  EXPECT_THROW(DurableFolder::undo(path), Error);
  EXPECT_EQ(content(path), "3");
  EXPECT_EQ(content(DurableFolder::rejected(path)), "worse");
}

// The first ends by itself, so that there is one to be lost.
TEST(DurableFolder, SurvivesAKillAtAnyMoment) {
  const TempFolder folder;
  const fs::path path = folder / "x";
  replace(path, "0");
  replace(path, "0");
  std::mt19937 random(3);
  std::string newest = "0";
  int changed = 0;
  for (int round = 0; round < 40 || (changed < 10 && round < 400); ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (int n = 1;; ++n) replace(path, std::to_string(round) + "." + std::to_string(n));
    }
    usleep(static_cast<useconds_t>(random() % 12'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);  // and no error of its own
    const std::string now = content(path);
    EXPECT_THAT(now, ::testing::Not(::testing::StartsWith("torn")));
    EXPECT_THAT(content(DurableFolder::previous(path)), ::testing::Not(::testing::StartsWith("torn")));
    changed += now != newest ? 1 : 0;
    newest = now;
  }
  EXPECT_GE(changed, 10);
  replace(path, "end");  // whatever was left is no obstacle
  EXPECT_EQ(content(path), "end");
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("x", "x.previous"));
}

// Each of these would be lost, or be found out only after all was written.
TEST(DurableFolder, LeavesWhatOthersMade) {
  const TempFolder folder;
  const fs::path path = folder / "x";
  for (const char* name : {"x.new", "theirs"}) {
    fs::create_directory(folder / name);
    write_both(folder / name, "theirs");
  }
  replace(path, "1");
  EXPECT_EQ(content(folder / "x.new"), "theirs");

  const auto refused = [&](const fs::path& named) -> std::string {
    try {
      const DurableFolder none(named);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const fs::path theirs = folder / "theirs", fresh = DurableFolder(path).fresh();
  fs::create_directory_symlink(theirs, fresh);
  EXPECT_THAT(refused(path), HasSubstr("cannot be opened"));
  fs::remove(fresh);
  fs::create_directory_symlink(theirs, DurableFolder::previous(path));
  EXPECT_THAT(refused(path), HasSubstr("rename it"));
  fs::remove(DurableFolder::previous(path));
  fs::rename(theirs, DurableFolder::previous(path));
  EXPECT_THAT(refused(path), HasSubstr("rename it"));
  EXPECT_EQ(content(DurableFolder::previous(path)), "theirs");
  fs::create_directory_symlink(folder / "nothing", folder / "dangling");
  fs::create_directory_symlink(path, folder / "link");
  for (const char* name : {"dangling", "link"}) EXPECT_THAT(refused(folder / name), HasSubstr("is a symbolic link"));
  std::ofstream(folder / "file") << "theirs";
  EXPECT_THAT(refused(folder / "file"), HasSubstr("is a file"));
  for (const char* name : {".", "..", "y/..", "/"}) EXPECT_THAT(refused(name), HasSubstr("by its name"));
  EXPECT_EQ(content(path), "1");
}

// One that another program made meanwhile is not exchanged away, and the work of hours is not lost.
TEST(DurableFolder, KeepsWhatCannotTakeItsPlace) {
  const TempFolder folder;
  const fs::path path = folder / "x";
  for (const char* text : {"1", "2"}) {
    DurableFolder late(path);
    write_both(late.fresh(), text);
    std::ofstream(path) << "theirs";
    EXPECT_THROW(late.commit(), Error);
    fs::remove(path);
  }
  replace(path, "3");
  EXPECT_EQ(content(path), "3");
  EXPECT_EQ(content(folder / "x.uncommitted"), "1");
  EXPECT_EQ(content(folder / "x.uncommitted-2"), "2");
}

TEST(FolderLock, LetsOneWriteAndLeavesNothing) {
  const TempFolder folder;
  const fs::path path = folder / "x" / "y";
  {
    const FolderLock lock(path);
    try {
      const FolderLock other(path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("x/y: another program is writing into it; wait for its end"));
    }
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  {
    const FolderLock again(path);
    std::ofstream(path / "file") << "kept";
  }
  EXPECT_EQ(read_text_file(path / "file", 100), "kept");
}

TEST(DurableFolder, IsAsReadableAsTheOneBefore) {
  const TempFolder folder;
  const fs::path path = folder / "x";
  replace(path, "1");
  fs::permissions(path, fs::perms::owner_all);
  replace(path, "2");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
}

}  // namespace
}  // namespace ashlar
