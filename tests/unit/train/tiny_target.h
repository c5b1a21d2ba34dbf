// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tiny target on the CPU, documents to learn from, and the drafter that is designed for it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>

#include "golden/golden_data.h"
#include "golden/head_folder.h"
#include "golden/seeded_checkpoint.h"
#include "train/run/block_drafter.h"
#include "train/run/train_run.h"

namespace ashlar {

class TinyTarget : public ::testing::Test {
 protected:
  /// 30 documents of `shortest` to `longest` tokens, of which all but the first five are learnt. Each is one of four
  /// sequences that go round, so that there is something to learn, after two tokens of its own.
  /// `family`: of tests/data/families; `head`: of tests/data/heads, whose layer the target then brings.
  TinyTarget(const DeviceOptions& device, size_t shortest, size_t longest, const std::string& family = "qwen3",
             const std::string& head = "")
      : checkpoint_(testing::data_folder() / "families" / family), ops_(make_device("cpu", device)) {
    if (!head.empty()) {
      with_head_ = std::make_unique<testing::HeadFolder>(testing::data_folder() / "families" / family,
                                                         testing::data_folder() / "heads" / head);
    }
    model_ = Model::load(*ops_, target_folder(), 128);
    drafter_ = design_drafter(model_->config(), {}, 5);
    make_documents(shortest, longest);
  }

  std::filesystem::path target_folder() const { return with_head_ ? with_head_->path() : checkpoint_.folder(); }

  static DeviceOptions one_thread() {
    DeviceOptions options;
    options.threads = 1;
    return options;
  }
  static std::string bytes(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::SeededCheckpoint checkpoint_;
  std::unique_ptr<testing::HeadFolder> with_head_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  DflashConfig drafter_;
  DocumentSet documents_{64};
  TrainListener quiet_;

 private:
  void make_documents(size_t shortest, size_t longest) {
    std::mt19937 random(4);
    for (int document = 0; document < 30; ++document) {
      EncodedDocument one;
      int32_t id = static_cast<int32_t>(random() % 4);
      for (size_t n = shortest + (longest > shortest ? random() % (longest - shortest + 1) : 0); n > 0; --n) {
        id = (id + 4) % 80;
        // Its number first, in tokens that the sequences do not have.
        const int32_t digit = one.ids.empty() ? document / 6 : document % 6;
        one.ids.push_back(one.ids.size() < 2 ? 90 + digit : 10 + id);
        one.supervised.push_back(one.ids.size() > 5 ? 1 : 0);
      }
      documents_.add(one);
    }
    documents_.end_file();
  }
};

}  // namespace ashlar
