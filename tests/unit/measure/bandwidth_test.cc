// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/bandwidth.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(Bandwidth, SmallBufferIsReadAtAPossibleRate) {
  const Bandwidth bandwidth = measure_read_bandwidth(1, 8 << 20, 0.01);
  EXPECT_EQ(bandwidth.buffer_bytes, 8 << 20);
  EXPECT_EQ(bandwidth.threads, 1);
  EXPECT_GE(bandwidth.best, bandwidth.median);
  EXPECT_GT(bandwidth.median, 1e8);  // slower than any machine this runs on
  EXPECT_LT(bandwidth.best, 1e12);   // faster than one core can load: the loop was optimised away
}

TEST(Bandwidth, OddSizesAreRoundedDownToWholePieces) {
  EXPECT_EQ(measure_read_bandwidth(2, (3 << 20) + 12345, 0).buffer_bytes, 3 << 20);
  EXPECT_EQ(measure_read_bandwidth(1, 1, 0).buffer_bytes, 1 << 20);
}

TEST(Bandwidth, BufferExceedsTheCacheButNotTheMemory) {
  EXPECT_GE(bandwidth_buffer_bytes(0), 4 * last_level_cache_bytes());
  EXPECT_GE(bandwidth_buffer_bytes(0), int64_t{1} << 30);
  EXPECT_EQ(bandwidth_buffer_bytes(int64_t{1} << 30), int64_t{1} << 28);
}

}  // namespace
}  // namespace ashlar
