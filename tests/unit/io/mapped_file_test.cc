// SPDX-License-Identifier: Apache-2.0
// Files that change while they are mapped.

#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "io/weights/checkpoint.h"
#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

const auto kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

int64_t sum(const MappedFile& file) {
  return std::accumulate(file.bytes().begin(), file.bytes().end(), int64_t{0},
                         [](int64_t all, std::byte one) { return all + static_cast<int64_t>(one); });
}

// Whatever file of a model it stands for: weights, a vocabulary, a template.
TEST(MappedFileTest, APointerOfGitLfsIsNamedForWhatItIs) {
  const TempFolder folder;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n";
  const auto path = folder.write("weights", pointer);
  expect_error([&] { MappedFile file(path); },
               {"[file]", path.string(), "is a pointer of git-lfs", "git lfs pull", "ashlar pull"});
  EXPECT_NO_THROW(MappedFile(folder.write("long", pointer + std::string(1024, ' '))));
  EXPECT_NO_THROW(MappedFile(folder.write("short", pointer.substr(0, 10))));
}

TEST(MappedFileTest, WhatIsCutWhileItIsMappedIsAnErrorThatNamesIt) {
  const TempFolder folder;
  const auto path = folder.write("weights", std::string(5 * kPage, '\1'));
  for (const size_t left : {5 * kPage, 3 * kPage + 17, kPage, size_t{0}}) {
    SCOPED_TRACE(left);
    const MappedFile file(path);
    std::filesystem::resize_file(path, left);
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i)
      readers.emplace_back([&file, left] { EXPECT_EQ(sum(file), static_cast<int64_t>(left)); });
    for (std::thread& reader : readers) reader.join();
    if (left == 5 * kPage) {
      EXPECT_NO_THROW(file.check_whole());
    } else {
      expect_error([&] { file.check_whole(); }, {"[file]", path.string(), std::to_string(5 * kPage) + " bytes when it",
                                                 "has " + std::to_string(left) + " now", "fetch it again"});
    }
    std::filesystem::resize_file(path, 5 * kPage);
    folder.write("weights", std::string(5 * kPage, '\1'));
  }
}

TEST(MappedFileTest, OneCutFileSaysNothingOfOthers) {
  const TempFolder folder;
  const MappedFile whole(folder.write("whole", std::string(2 * kPage, '\1')));
  MappedFile first(folder.write("cut", std::string(2 * kPage, '\1')));
  std::filesystem::resize_file(folder.path() / "cut", 1);
  const MappedFile moved(std::move(first));
  EXPECT_EQ(sum(moved), 1);
  EXPECT_EQ(sum(whole), static_cast<int64_t>(2 * kPage));
  EXPECT_NO_THROW(whole.check_whole());
  expect_error([&] { moved.check_whole(); }, {"cut"});
}

TEST(MappedFileTest, OtherBusErrorsStayWhatTheyWere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempFolder folder;
  const auto path = folder.write("file", std::string(kPage, '\1'));
  const auto read_beyond = [&path] {
    const MappedFile watched(path);
    const MappedFile also(path);
    FILE* file = fopen(path.c_str(), "r+");
    const void* mapped = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (ftruncate(fileno(file), 0) != 0) return;
    [[maybe_unused]] const volatile char gone = *static_cast<const volatile char*>(mapped);
  };
  EXPECT_DEATH(read_beyond(), "");
  struct sigaction now {};
  sigaction(SIGBUS, nullptr, &now);
  { const MappedFile file(folder.write("other", "x")); }
  struct sigaction after {};
  sigaction(SIGBUS, nullptr, &after);
  EXPECT_EQ(now.sa_handler, after.sa_handler);
}

TEST(MappedFileTest, AShardThatIsCutAfterItsHeaderWasRead) {
  const TempFolder folder;
  const auto path =
      folder.write("model.safetensors", safetensors({zeros("a", "F32", 4, {static_cast<int64_t>(kPage)})}));
  const Checkpoint checkpoint(folder.path());
  std::filesystem::resize_file(path, kPage);
  const StoredTensor& tensor = *checkpoint.tensors().at("a");
  EXPECT_EQ(std::accumulate(tensor.data, tensor.data + tensor.bytes, 0,
                            [](int all, std::byte one) { return all + static_cast<int>(one); }),
            0);
  expect_error([&] { checkpoint.check_whole(); }, {path.string(), "fetch it again"});
}

}  // namespace
}  // namespace ashlar::testing
