// SPDX-License-Identifier: Apache-2.0
// Pulls that succeed: layout, reuse, resuming, two at once, offline.

#include "hub/pull.h"

#include "unit/hub/pull_fixture.h"

namespace ashlar::hub {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(HubPull, MakesTheLayoutOfTheHubsOwnTools) {
  const PullResult result = pull({"org/model", "main"}, options_);
  expect_all_there();
  EXPECT_EQ(result.snapshot, snapshot());
  EXPECT_EQ(result.files, 3);
  EXPECT_EQ(result.bytes, 320'000 + 22);
  EXPECT_EQ(result.fetched, result.bytes);
  EXPECT_FALSE(fs::exists(snapshot() / "pytorch_model.bin"));
  EXPECT_EQ(fs::read_symlink(snapshot() / "model.safetensors"),
            fs::path("../../blobs") / testing_support::sha256(hub_.files["model.safetensors"].content));
  EXPECT_TRUE(fs::exists(cache_ / ".locks" / "models--org--model" /
                         (testing_support::git_sha1(hub_.files["config.json"].content) + ".lock")));
}

TEST_F(HubPull, FetchesNothingTwice) {
  pull({"org/model", "main"}, options_);
  const PullResult again = pull({"org/model", "main"}, options_);
  EXPECT_EQ(again.fetched, 0);
  EXPECT_EQ(hub_.gets("model.safetensors"), 1);
  const size_t asked = hub_.seen().size();
  EXPECT_EQ(ensure({"org/model", "main"}, options_), snapshot());
  EXPECT_EQ(hub_.seen().size(), asked) << "ensure asks the network for what is there";
}

// Reading 60 GB at each pull would be worse than what it could find.
TEST_F(HubPull, WhatIsThereIsTakenByItsLength) {
  pull({"org/model", "main"}, options_);
  std::string altered = hub_.files["model.safetensors"].content;
  altered[7] ^= 1;
  write(blob_of("model.safetensors"), altered);
  EXPECT_EQ(pull({"org/model", "main"}, options_).fetched, 0);
  fs::remove(blob_of("model.safetensors"));  // as the help of pull says
  pull({"org/model", "main"}, options_);
  expect_all_there();
  EXPECT_EQ(hub_.gets("model.safetensors"), 2);
}

TEST_F(HubPull, AllFilesOnRequest) {
  hub_.files["sub/folder/deep.txt"] = {"deep", false};
  options_.all_files = true;
  pull({"org/model", "main"}, options_);
  expect_all_there();
  EXPECT_EQ(content(snapshot() / "pytorch_model.bin"), "unwanted");
  EXPECT_EQ(content(snapshot() / "sub" / "folder" / "deep.txt"), "deep");
}

TEST_F(HubPull, AskForRevisionsAsOneSegment) {
  pull({"org/model", "refs/pr/7"}, options_);
  EXPECT_EQ(hub_.seen().front().target, "/api/models/org/model/revision/refs%2Fpr%2F7");
  EXPECT_EQ(content(repo() / "refs" / "refs" / "pr" / "7"), FakeHub::kCommit);
}

TEST_F(HubPull, GoesOnWhereAnEarlierPullEnded) {
  const std::string& whole = hub_.files["model.safetensors"].content;
  write(blob_of("model.safetensors").string() + ".incomplete", whole.substr(0, 100'000));
  const PullResult result = pull({"org/model", "main"}, options_);
  expect_all_there();
  EXPECT_EQ(result.fetched, result.bytes - 100'000);
}

TEST_F(HubPull, AWrongBeginningIsThrownAway) {
  write(blob_of("model.safetensors").string() + ".incomplete", std::string(100'000, 'x'));
  pull({"org/model", "main"}, options_);
  expect_all_there();
  EXPECT_EQ(hub_.gets("model.safetensors"), 2);
  fs::remove(blob_of("model.safetensors"));
  write(blob_of("model.safetensors").string() + ".incomplete", std::string(400'000, 'x'));  // longer than the file
  pull({"org/model", "main"}, options_);
  expect_all_there();
}

TEST_F(HubPull, TwoAtOnceFetchEachFileOnce) {
  hub_.mischief = [](const std::string&, int, const ServedRequest&, ServedConnection&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that both want the same at the same time
    return false;
  };
  std::vector<std::thread> threads;
  std::atomic<int64_t> fetched{0};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { fetched += pull({"org/model", "main"}, options_).fetched; });
  }
  for (std::thread& thread : threads) thread.join();
  expect_all_there();
  EXPECT_EQ(fetched, 320'000 + 22);
  for (const char* file : {"config.json", "tokenizer.json", "model.safetensors"}) EXPECT_EQ(hub_.gets(file), 1) << file;
}

TEST_F(HubPull, ProgressNeverFallsAndEndsAtAll) {
  int64_t last = -1, total = 0;
  int files = 0;
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    if (file != "model.safetensors" || nth > 0) return false;
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" +
                std::string(200'000, 'x'));  // wrong, then dropped
    client.drop();
    return true;
  };
  options_.progress = [&](const PullProgress& progress) {
    EXPECT_GE(progress.bytes_done, last);
    EXPECT_LE(progress.bytes_done, progress.bytes_total);
    last = progress.bytes_done;
    total = progress.bytes_total;
    files = progress.files_done;
  };
  pull({"org/model", "main"}, options_);
  expect_all_there();
  EXPECT_EQ(last, 320'000 + 22);
  EXPECT_EQ(total, last);
  EXPECT_EQ(files, 3);
}

TEST_F(HubPull, OfflineAnswersFromTheCacheAlone) {
  options_.settings.offline = true;
  EXPECT_THAT(error_of_pull(), HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_TRUE(hub_.seen().empty());
  options_.settings.offline = false;
  pull({"org/model", "main"}, options_);
  const size_t asked = hub_.seen().size();
  options_.settings.offline = true;
  EXPECT_EQ(pull({"org/model", "main"}, options_).snapshot, snapshot());
  EXPECT_EQ(pull({"org/model", FakeHub::kCommit}, options_).snapshot, snapshot());
  EXPECT_EQ(hub_.seen().size(), asked);
  EXPECT_FALSE(find_cached({"org/model", "other"}, options_.settings, Role::kModel));
  EXPECT_FALSE(find_cached({"org/other", "main"}, options_.settings, Role::kModel));
}

TEST_F(HubPull, AHalfModelIsNotCached) {
  pull({"org/model", "main"}, options_);
  fs::remove(blob_of("model.safetensors"));
  EXPECT_FALSE(find_cached({"org/model", "main"}, options_.settings, Role::kModel)) << "its link leads nowhere";
  EXPECT_EQ(ensure({"org/model", "main"}, options_), snapshot());
  write(repo() / "snapshots" / FakeHub::kCommit / "model.safetensors.index.json",
        R"({"weight_map":{"a":"model.safetensors","b":"model-2.safetensors"}})");
  EXPECT_TRUE(find_cached({"org/model", "main"}, options_.settings, Role::kModel)) << "the whole file counts";
  fs::rename(snapshot() / "model.safetensors", snapshot() / "other.safetensors");
  EXPECT_FALSE(find_cached({"org/model", "main"}, options_.settings, Role::kModel))
      << "the index names files that are not there";
}

// The hub's own tools write refs/main first, and then one file after the other.
TEST_F(HubPull, AModelWithoutItsTokenizerIsFetchedToTheEnd) {
  pull({"org/model", "main"}, options_);
  fs::remove(snapshot() / "tokenizer.json");
  fs::remove(blob_of("tokenizer.json"));
  options_.settings.offline = true;
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("it lacks tokenizer.json"), HasSubstr("HF_HUB_OFFLINE"),
                                     HasSubstr("ashlar pull org/model")));
  EXPECT_TRUE(find_cached({"org/model", "main"}, options_.settings, Role::kDrafter)) << "a drafter has none";
  options_.settings.offline = false;
  EXPECT_EQ(ensure({"org/model", "main"}, options_), snapshot());
  expect_all_there();
  EXPECT_EQ(hub_.gets("tokenizer.json"), 2);
  EXPECT_EQ(hub_.gets("model.safetensors"), 1);
}

TEST_F(HubPull, ShardsWithoutTheirIndexAreFetchedToTheEnd) {
  hub_.files.erase("model.safetensors");
  const std::string index = "model.safetensors.index.json";
  const std::string first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
  hub_.files[first] = {testing_support::random_bytes(5000, 3), true};
  hub_.files[second] = {testing_support::random_bytes(6000, 4), true};
  hub_.files[index] = {R"({"weight_map":{"a":")" + first + R"(","b":")" + second + "\"}}", false};
  pull({"org/model", "main"}, options_);
  EXPECT_TRUE(find_cached({"org/model", "main"}, options_.settings, Role::kModel));
  for (const std::string& file : {index, second}) fs::remove(snapshot() / file);
  EXPECT_THAT(missing_files(snapshot(), Role::kModel), ElementsAre(index, second));
  fs::remove(snapshot() / "config.json");
  EXPECT_THAT(missing_files(snapshot(), Role::kDrafter), ElementsAre("config.json", index, second));
  EXPECT_EQ(ensure({"org/model", "main"}, options_), snapshot());
  for (const std::string& file : {index, first, second}) {
    EXPECT_TRUE(content(snapshot() / file) == hub_.files.at(file).content) << file;
  }
}

TEST(MissingFiles, AreNamedAFewAtATime) {
  EXPECT_EQ(list_of_missing({"a"}), "a");
  EXPECT_EQ(list_of_missing({"a", "b"}), "a and b");
  EXPECT_EQ(list_of_missing({"a", "b", "c", "d"}), "a, b, c and d");
  EXPECT_EQ(list_of_missing({"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

}  // namespace
}  // namespace ashlar::hub
