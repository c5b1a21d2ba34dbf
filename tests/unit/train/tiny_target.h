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
#include "golden/seeded_checkpoint.h"
#include "train/run/block_drafter.h"
#include "train/run/train_run.h"

namespace ashlar {

class TinyTarget : public ::testing::Test {
 protected:
  /// 30 documents of `shortest` to `longest` tokens, of which all but the first five are learnt. Each is one of four
  /// sequences that go round, so that there is something to learn, after two tokens of its own.
  TinyTarget(const DeviceOptions& device, size_t shortest, size_t longest)
      : ops_(make_device("cpu", device)),
        model_(Model::load(*ops_, checkpoint_.folder(), 128)),
        drafter_(design_drafter(model_->config(), {}, 5)) {
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

  static DeviceOptions one_thread() {
    DeviceOptions options;
    options.threads = 1;
    return options;
  }
  static std::string bytes(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::SeededCheckpoint checkpoint_{testing::data_folder() / "families" / "qwen3"};
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  DflashConfig drafter_;
  DocumentSet documents_{64};
  TrainListener quiet_;
};

}  // namespace ashlar
