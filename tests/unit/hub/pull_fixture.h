// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "hub/pull.h"
#include "temp_folder.h"
#include "unit/hub/fake_hub.h"

namespace ashlar::hub {

using testing_support::FakeFile;
using testing_support::FakeHub;
using testing_support::ServedConnection;
using testing_support::ServedRequest;
using testing_support::SocketServer;

/// A small model at a fake hub and an empty cache.
class HubPull : public testing::Test {
 protected:
  HubPull() {
    hub_.files["config.json"] = {"{\"model_type\":\"qwen3\"}", false};
    hub_.files["tokenizer.json"] = {testing_support::random_bytes(20'000, 1), false};
    hub_.files["model.safetensors"] = {testing_support::random_bytes(300'000, 2), true};
    hub_.files["pytorch_model.bin"] = {"unwanted", true};
    options_.settings.endpoint = hub_.url();
    options_.settings.cache = cache_.path();
    options_.retry = {4, 0.01, 0.05};
  }
  ~HubPull() override { std::filesystem::permissions(cache_.path(), std::filesystem::perms::owner_all); }

  std::filesystem::path repo() const { return cache_ / "models--org--model"; }
  std::filesystem::path snapshot() const { return repo() / "snapshots" / FakeHub::kCommit; }
  std::string content(const std::filesystem::path& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path blob_of(const std::string& file) const {
    const FakeFile& served = hub_.files.at(file);
    return repo() / "blobs" /
           (served.lfs ? testing_support::sha256(served.content) : testing_support::git_sha1(served.content));
  }
  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void expect_all_there() const {
    for (const char* file : {"config.json", "tokenizer.json", "model.safetensors"}) {
      EXPECT_TRUE(content(snapshot() / file) == hub_.files.at(file).content) << file;
    }
    EXPECT_EQ(content(repo() / "refs" / "main"), FakeHub::kCommit);
    for (const auto& entry : std::filesystem::directory_iterator(repo() / "blobs")) {
      EXPECT_NE(entry.path().extension(), ".incomplete");
    }
  }
  std::string error_of_pull(const std::string& ref = "org/model") {
    try {
      pull(*parse_repo_ref(ref), options_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  FakeHub hub_;
  const TempFolder cache_;
  PullOptions options_;
};

}  // namespace ashlar::hub
