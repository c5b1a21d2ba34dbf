// SPDX-License-Identifier: Apache-2.0
#include "app/serve/traffic_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "temp_folder.h"
#include "train/data/example.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class TrafficFilesTest : public testing::Test {
 protected:
  static server::RequestRecord record(std::vector<server::AnsweredTokens> tokens) {
    server::RequestRecord out;
    if (!tokens.empty()) out.tokens = std::make_shared<const std::vector<server::AnsweredTokens>>(std::move(tokens));
    return out;
  }
  TrafficFiles::Options options(int64_t bytes = 1 << 20) const { return {path_, bytes, "mark"}; }
  // What a trainer reads of the folder.
  std::vector<TrainingExample> examples() const {
    std::vector<TrainingExample> out;
    for (const DataFile& file : data_files({path_.string()})) {
      read_examples(file.path, [&out](const TrainingExample& example) { out.push_back(example); });
    }
    return out;
  }
  std::string error(const TrafficFiles::Options& options) const {
    try {
      const TrafficFiles files(options, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
  const fs::path path_ = folder_ / "traffic";
};

TEST_F(TrafficFilesTest, IsTrainingDataOfTheAnswersAlone) {
  for (int32_t run = 0; run < 2; ++run) {  // a second server goes on
    TrafficFiles files(options(), {});
    files.add(record({{{1, 2, 3}, {4, 5 + run}}, {{1, 2, 3}, {6}}}));
    files.add(record({}));
  }
  const std::vector<TrainingExample> all = examples();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[0].ids, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(all[0].supervised, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(all[1].ids, ElementsAre(1, 2, 3, 6));
  EXPECT_THAT(all[2].ids, ElementsAre(1, 2, 3, 4, 6));
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    struct stat about {};
    ASSERT_EQ(::stat(entry.path().c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u);
  }
}

TEST_F(TrafficFilesTest, KeepsTheNewestWithinItsBound) {
  constexpr int64_t kBytes = 8'000;
  {
    TrafficFiles files(options(kBytes), {});
    for (int32_t i = 0; i < 1'000; ++i) files.add(record({{{i}, {i, i}}}));
  }
  int64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    bytes += static_cast<int64_t>(entry.file_size());
    EXPECT_LE(entry.file_size(), static_cast<uintmax_t>(kBytes / TrafficFiles::kFiles));
  }
  EXPECT_LE(bytes, kBytes);
  EXPECT_GE(bytes, kBytes * 3 / 4);
  const std::vector<TrainingExample> kept = examples();
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].ids[0], static_cast<int32_t>(1'000 - kept.size() + i));
  }
}

// What was there counts as new by when its file was written; what goes away no longer counts as kept.
TEST_F(TrafficFilesTest, CountsAnswers) {
  constexpr int64_t kBytes = 8'000;
  {
    TrafficFiles files(options(kBytes), {});
    for (int32_t i = 0; i < 100; ++i) files.add(record({{{i}, {i, i}}}));
  }
  const auto kept = static_cast<int64_t>(examples().size());
  TrafficFiles::Options counted = options(kBytes);
  counted.new_since = fs::file_time_type::clock::now() + std::chrono::hours(1);
  EXPECT_EQ(TrafficFiles(counted, {}).counts().answers, kept);
  EXPECT_EQ(TrafficFiles(counted, {}).counts().added, 0);
  counted.new_since = fs::file_time_type::min();
  TrafficFiles files(counted, {});
  EXPECT_EQ(files.counts().added, kept);
  for (int32_t i = 0; i < 300; ++i) files.add(record({{{i}, {i, i}}, {{i}, {i}}}));
  // The oldest goes after the newest was written.
  const auto all_counted = [&] {
    const TrafficFiles::Counts counts = files.counts();
    return counts.added == kept + 600 && counts.answers == static_cast<int64_t>(examples().size());
  };
  for (int32_t i = 0; i < 500 && !all_counted(); ++i) usleep(10'000);
  EXPECT_EQ(files.counts().added, kept + 600);
  EXPECT_EQ(files.counts().answers, static_cast<int64_t>(examples().size()));
  EXPECT_LT(files.counts().answers, 600);
}

// A line that is longer than a file's share has a file of its own.
TEST_F(TrafficFilesTest, TakesAnswersOfAnyLength) {
  {
    TrafficFiles files(options(8'000), {});
    for (int32_t i = 0; i < 3; ++i) files.add(record({{{i}, std::vector<int32_t>(300, 7)}}));
  }
  EXPECT_EQ(examples().size(), 3u);
}

TEST_F(TrafficFilesTest, SaysWhyItCannotBegin) {
  { TrafficFiles(options(), {}).add(record({{{1}, {2}}})); }
  TrafficFiles::Options other = options();
  other.model = "another";
  EXPECT_THAT(error(other), HasSubstr("is not of the model that is served"));
  EXPECT_EQ(error(options()), "no error");

  const fs::path file = folder_ / "file";
  std::ofstream(file) << "x";
  EXPECT_THAT(error({file, 1 << 20, "mark"}), HasSubstr("expected a folder that can be written"));
  EXPECT_THAT(error({file / "below", 1 << 20, "mark"}), HasSubstr("expected a folder that can be written"));
}

// Whatever a kill left of the last line, the next start finds whole lines before it.
TEST_F(TrafficFilesTest, MendsWhatAKillLeft) {
  {
    TrafficFiles files(options(), {});
    for (int32_t i = 0; i < 2; ++i) files.add(record({{{i}, {7, 8}}}));
  }
  const fs::path file = path_ / "traffic-000001.jsonl";
  std::ifstream in(file);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const size_t first = whole.find('\n') + 1;
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, bytes);
    { const TrafficFiles files(options(), {}); }
    if (bytes < first) {
      EXPECT_FALSE(fs::exists(file)) << bytes;
    } else {
      EXPECT_EQ(fs::file_size(file), first) << bytes;
    }
  }
}

// As at a change of servers, when the old one still answers.
TEST_F(TrafficFilesTest, TwoServersWriteFilesOfTheirOwn) {
  {
    TrafficFiles one(options(), {}), other(options(), {});
    for (int32_t i = 0; i < 10; ++i) (i % 2 == 0 ? one : other).add(record({{{i}, {7, 8}}}));
  }
  EXPECT_EQ(examples().size(), 10u);
}

// What the disk does not take is reported, and what was there stays readable.
TEST_F(TrafficFilesTest, ReportsWhatItLoses) {
  std::ostringstream said;
  {
    TrafficFiles files(options(), [&said](const std::string& message) { said << message; });
    fs::remove_all(path_);
    files.add(record({{{1}, {2}}}));
  }
  EXPECT_THAT(said.str(), HasSubstr("the traffic to learn from lacks 1 requests: No such file"));
}

}  // namespace
}  // namespace ashlar
