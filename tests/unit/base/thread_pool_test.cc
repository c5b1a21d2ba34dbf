// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <numeric>

namespace ashlar {
namespace {

class ThreadPoolSizes : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolSizes, EveryItemRunsExactlyOnce) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.size(), GetParam());
  for (int n : {0, 1, 2, 3, 7, 64, 1000, 0xFFFF, 0x10000, 200000}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
    pool.run(n, [&](int32_t item, int32_t worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, pool.size());
      seen[static_cast<size_t>(item)].fetch_add(1, std::memory_order_relaxed);
    });
    for (int i = 0; i < n; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)].load(), 1) << "item " << i << " of " << n;
  }
}

// Plain memory written by the workers is visible to the caller after run(), and what the caller wrote before to the
// workers.
TEST_P(ThreadPoolSizes, LoopsAreOrdered) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> values(97, 0);
  for (int64_t round = 1; round <= 20000; ++round) {
    const int n = static_cast<int>(round % 97) + 1;
    const int64_t before = values[0];
    pool.run(n, [&](int32_t item, int32_t) { values[static_cast<size_t>(item)] += before < 0 ? 1000 : 1; });
    ASSERT_EQ(values[0], round);
  }
  int64_t expected = 0;
  for (int64_t round = 1; round <= 20000; ++round) expected += round % 97 + 1;
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), expected);
}

TEST_P(ThreadPoolSizes, WakesFromSleep) {
  ThreadPool pool(GetParam());
  std::atomic<int> total{0};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run(8, [&](int32_t, int32_t) { total.fetch_add(1); });
  }
  EXPECT_EQ(total.load(), 160);
}

// Long and short items mixed: the sum of work must not depend on who takes what.
TEST_P(ThreadPoolSizes, UnevenItemsAreStolen) {
  ThreadPool pool(GetParam());
  std::vector<uint64_t> result(64);
  for (int round = 0; round < 50; ++round) {
    pool.run(64, [&](int32_t item, int32_t) {
      uint64_t x = static_cast<uint64_t>(item) + 1;
      const int steps = item < 4 ? 20000 : 10;
      for (int i = 0; i < steps; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
      result[static_cast<size_t>(item)] = x;
    });
    for (int item = 0; item < 64; ++item) {
      uint64_t x = static_cast<uint64_t>(item) + 1;
      for (int i = 0; i < (item < 4 ? 20000 : 10); ++i) x = x * 6364136223846793005u + 1442695040888963407u;
      ASSERT_EQ(result[static_cast<size_t>(item)], x);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolSizes, ::testing::Values(1, 2, 3, 8));

TEST(ThreadPool, ZeroMeansOneWorkerPerCore) { EXPECT_EQ(ThreadPool(0).size(), usable_cores().workers()); }

// A caller that the scheduler, or the user, puts on a worker's core must not end up sharing it.
TEST(ThreadPool, WorkersKeepOffTheCoreOfTheCaller) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  if (usable_cores().cores < 2) GTEST_SKIP() << "one core";
  ThreadPool pool(2);
  int tried = 0;
  for (int core = 0; core < CPU_SETSIZE && tried < 4; ++core) {
    if (!CPU_ISSET(core, &before)) continue;
    ++tried;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    std::atomic<int> started{0};
    int cores[2] = {-1, -1};
    pool.run(2, [&](int32_t item, int32_t worker) {
      started.fetch_add(1);
      // Both items at once means both workers; the bound is for a machine so busy that the worker never runs.
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
      while (started.load() < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      cores[item] = worker * 100000 + sched_getcpu();
    });
    EXPECT_EQ(started.load(), 2);
    EXPECT_NE(cores[0] % 100000, cores[1] % 100000) << "caller on core " << core;
    sched_setaffinity(0, sizeof(before), &before);
  }
}

TEST(ThreadPool, ManyPoolsComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(3);
    int total[3] = {};
    if (i % 2 == 0) pool.run(3, [&](int32_t item, int32_t) { total[item] = item + 1; });
    ASSERT_EQ(total[0] + total[1] + total[2], i % 2 == 0 ? 6 : 0);
  }
}

}  // namespace
}  // namespace ashlar
