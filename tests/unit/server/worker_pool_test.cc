// SPDX-License-Identifier: Apache-2.0
#include "server/service/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace ashlar::server {
namespace {

TEST(WorkerPool, RunsTasksAndRefusesTooMany) {
  std::atomic<int> ran{0};
  std::mutex gate;
  {
    WorkerPool pool(2, 4);
    gate.lock();
    int accepted = 0;
    for (int i = 0; i < 50; ++i)
      accepted += pool.post({.run =
                                 [&] {
                                   const std::lock_guard lock(gate);
                                   ++ran;
                                 }})
                      ? 1
                      : 0;
    EXPECT_GE(accepted, 4);
    EXPECT_LE(accepted, 6);
    gate.unlock();
    while (ran < accepted) std::this_thread::yield();
  }
  EXPECT_GE(ran, 4);
}

TEST(WorkerPool, LongTasksLeaveAThreadToShortOnes) {
  std::mutex gate;
  std::atomic<int> long_ones{0};
  std::atomic<bool> short_one{false};
  {
    WorkerPool pool(2, 16);
    std::unique_lock lock(gate);
    for (int i = 0; i < 4; ++i) {
      const auto task = [&] {
        const std::lock_guard inside(gate);
        ++long_ones;
      };
      ASSERT_TRUE(pool.post({.run = task, .bytes = 2u << 20}));
    }
    ASSERT_TRUE(pool.post({.run = [&] { short_one = true; }}));
    while (!short_one) std::this_thread::yield();  // though four came before it
    EXPECT_EQ(long_ones, 0);
    lock.unlock();
    while (long_ones < 4) std::this_thread::yield();
  }
}

TEST(WorkerPool, TasksOfClientsThatHaveLeftAreDropped) {
  std::mutex gate;
  std::atomic<int> ran{0};
  const auto held = std::make_shared<int>(0);
  WorkerPool pool(1, 100);
  {
    const std::lock_guard lock(gate);
    ASSERT_TRUE(pool.post({.run = [&] { const std::lock_guard inside(gate); }}));
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(pool.post({.run = [&ran, held] { ++ran; }, .wanted = [i] { return i % 10 == 0; }}));
    }
  }
  while (held.use_count() > 1) std::this_thread::yield();
  EXPECT_EQ(ran, 5);
}

}  // namespace
}  // namespace ashlar::server
