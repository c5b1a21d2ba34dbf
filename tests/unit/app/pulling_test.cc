// SPDX-License-Identifier: Apache-2.0
#include "app/pulling.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "temp_folder.h"
#include "unit/hub/fake_hub.h"

namespace ashlar {
namespace {

using testing_support::FakeHub;
using testing_support::ServedConnection;
using testing_support::ServedRequest;

// Standard error is a terminal for as long as this lives.
class Screen {
 public:
  Screen() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)), before_(dup(STDERR_FILENO)) {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    terminal_ = open(ptsname(master_), O_RDWR | O_NOCTTY);
    dup2(terminal_, STDERR_FILENO);
  }
  ~Screen() {
    dup2(before_, STDERR_FILENO);
    for (const int fd : {master_, terminal_, before_}) close(fd);
  }
  // What was written since the last call.
  std::string text() const {
    std::string out;
    char bytes[4096];
    for (ssize_t n; (n = ::read(master_, bytes, sizeof bytes)) > 0;) out.append(bytes, static_cast<size_t>(n));
    return out;
  }

 private:
  int master_, before_, terminal_ = -1;
};

TEST(PullWithBar, WhatIsToldStandsOnALineOfItsOwn) {
  constexpr const char* kErased = "\r\033[K";
  FakeHub hub;
  const TempFolder cache;
  hub.files["config.json"] = {"{}", false};
  hub.files["model.safetensors"] = {testing_support::random_bytes(300'000, 1), true};
  hub.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    if (file != "model.safetensors" || nth > 0) return false;
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + hub.files[file].content.substr(0, 1000));
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));  // the bar shows what lasts longer than a second
    client.send(hub.files[file].content.substr(1000, 1000));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    client.drop();
    return true;
  };
  hub::PullOptions options;
  options.settings.endpoint = hub.url();
  options.settings.cache = cache.path();
  options.retry = {4, 0.01, 0.05};
  setenv("NO_COLOR", "1", 1);
  std::string seen;
  {
    const Screen screen;
    pull_with_bar({"org/model"}, options);
    seen = screen.text();
  }
  unsetenv("NO_COLOR");
  const size_t bar = seen.find("org/model  [");
  const size_t note = seen.find("model.safetensors: ");
  ASSERT_NE(bar, std::string::npos) << seen;
  ASSERT_NE(note, std::string::npos) << seen;
  EXPECT_LT(bar, note);
  EXPECT_TRUE(seen.substr(0, note).ends_with(kErased)) << seen;
  EXPECT_THAT(seen.substr(note), testing::HasSubstr("; trying again in 1 s\r\n"));
}

TEST(MissingModels, KnowWhatADrafterIsFor) {
  const TempFolder folder;
  setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  std::filesystem::create_directories(folder / "spec");
  std::ofstream(folder / "spec/config.json")
      << R"({"speculators_model_type": "eagle3", "speculators_config": {"verifier": {"name_or_path": "org/model"}}})";
  SessionOptions options;
  options.model = (folder / "spec").string();
  std::vector<MissingModel> missing = missing_models(options);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].ref.repo, "org/model");
  EXPECT_EQ(missing[0].role, hub::Role::kModel);
  options.model = folder.path().string();
  EXPECT_TRUE(missing_models(options).empty());
  unsetenv("HF_HUB_CACHE");
}

TEST(OfferOfDrafter, NamesOneThatIsNotHere) {
  const TempFolder folder;
  setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
  EXPECT_THAT(offer_of_drafter({"Qwen/Qwen3-8B"}),
              testing::AllOf(testing::HasSubstr("z-lab/Qwen3-8B-DFlash-b16"), testing::HasSubstr("--with-drafter")));
  EXPECT_EQ(offer_of_drafter({"org/model"}), "");
  const std::string commit(40, 'a');
  const auto repo = folder / "models--z-lab--Qwen3-8B-DFlash-b16";
  std::filesystem::create_directories(repo / "snapshots" / commit);
  std::filesystem::create_directories(repo / "refs");
  std::ofstream(repo / "refs/main") << commit;
  for (const char* file : {"config.json", "model.safetensors"})
    std::ofstream(repo / "snapshots" / commit / file) << "{}";
  EXPECT_EQ(offer_of_drafter({"Qwen/Qwen3-8B"}), "");
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace ashlar
