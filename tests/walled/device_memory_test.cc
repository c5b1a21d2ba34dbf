// SPDX-License-Identifier: Apache-2.0
// The plan of memory for a device that has its own: whatever the host has, too much for a small device or too little
// for a large one, decides nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "session/memory_budget.h"
#include "session/session.h"
#include "walled/walled_ops.h"

namespace ashlar::testing {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

AvailableMemory of_a_gpu(int64_t bytes) {
  AvailableMemory out;
  out.bytes = bytes;
  out.owner = "the GPU";
  out.total = int64_t{1} << 50;
  return out;
}

class DeviceMemory : public ::testing::Test {
 protected:
  MemorySituation situation(int64_t free, int64_t kv_bytes = 0) {
    ops_.own_memory(of_a_gpu(free));
    SessionOptions options;
    options.engine.kv_bytes = kv_bytes;
    return memory_situation(ops_, config_, nullptr, options);
  }
  static int64_t pages(const MemorySituation& given) {
    return given.plan.layout.pages_within(budget_memory(given).kv_bytes);
  }

  WalledOps ops_;
  const ModelConfig config_ = read_model_config(std::string(ASHLAR_SOURCE_DIR) + "/models/pebble-11m");
};

TEST_F(DeviceMemory, PagesFollowASmallDevice) {
  const MemorySituation large = situation(int64_t{1} << 40);
  EXPECT_FALSE(budget_memory(large).kv_limited);
  const MemorySituation small = situation(large.needs.weights + large.needs.workspace + 64 * kMiB);
  EXPECT_TRUE(budget_memory(small).kv_limited);
  EXPECT_LT(pages(small), pages(large));
  EXPECT_LE(budget_memory(small).kv_bytes, 64 * kMiB);
  const MemorySituation none = situation(large.needs.weights);
  try {
    budget_memory(none);
    FAIL() << "it fits";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" of the GPU's memory are free"), std::string::npos) << error.what();
  }
}

TEST_F(DeviceMemory, ACacheThatTheHostHasNoRoomForFitsALargeDevice) {
  const int64_t wished = std::max(2 * available_memory().bytes, int64_t{1} << 34);  // bytes may be unknown: 0
  EXPECT_EQ(budget_memory(situation(2 * wished, wished)).kv_bytes, wished);
}

}  // namespace
}  // namespace ashlar::testing
