// SPDX-License-Identifier: Apache-2.0
#pragma once
// A test that needs a GPU.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "device/device.h"

namespace ashlar::testing {

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override { make(KeptWeights::kAuto); }
  void make(KeptWeights weights, KvDType kv_dtype = KvDType::kBF16) {
    try {
      ops_ = make_device("cuda", {.threads = 0, .isa = {}, .kv_dtype = kv_dtype, .weights = weights});
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Ops> ops_;
};

}  // namespace ashlar::testing
