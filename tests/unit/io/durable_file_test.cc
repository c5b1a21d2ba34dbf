#include "io/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(DurableFile, SaysThatTheDiskIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const TempFolder folder;
  // The name it writes to first, so that each write meets a full disk.
  fs::create_symlink("/dev/full", folder / ("x.new-" + std::to_string(getpid())));
  DurableFile file(folder / "x");
  EXPECT_THROW(file.write(std::string_view("text")), Error);
  EXPECT_FALSE(fs::exists(folder / "x"));
}

}  // namespace
}  // namespace ashlar
