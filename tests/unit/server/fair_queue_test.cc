// SPDX-License-Identifier: Apache-2.0
// Who goes next, with costs and a clock that are numbers.

#include "server/service/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ashlar::server {
namespace {

/// Workers that take tasks from a queue, in virtual time.
class Simulation {
 public:
  explicit Simulation(int workers) : running_(static_cast<size_t>(workers)) {}

  /// Returns the task's number, for ended_at().
  size_t add(uint64_t client, size_t bytes, double cost_s, const std::string& kind = "/chat", bool wanted = true) {
    FairQueue::Task task;
    const size_t number = costs_.size();
    costs_.push_back(cost_s);
    wanted_.push_back(wanted);
    ends_.push_back(-1);
    task.run = [this, number] { current_ = number; };
    task.client = client;
    task.bytes = bytes;
    task.kind = kind;
    queue_.push(std::move(task));
    return number;
  }

  /// Until this time; what runs then goes on.
  void run_until(double end) {
    for (;;) {
      start_what_can();
      Running* next = nullptr;
      for (Running& one : running_) {
        if (one.busy && (next == nullptr || one.ends < next->ends)) next = &one;
      }
      if (next == nullptr || next->ends > end) break;
      now_ = next->ends;
      next->busy = false;
      ends_[next->number] = now_;
      if (wanted_[next->number]) {
        queue_.done(next->taken, costs_[next->number]);
      } else {
        queue_.dropped(next->taken);
      }
    }
    now_ = end;
  }
  void run_all() { run_until(1e9); }

  double ended_at(size_t number) const { return ends_[number]; }
  size_t waiting() const { return queue_.size(); }

 private:
  struct Running {
    bool busy = false;
    FairQueue::Taken taken;
    size_t number = 0;
    double ends = 0;
  };
  void start_what_can() {
    for (Running& place : running_) {
      if (place.busy) continue;
      const auto long_ones =
          std::count_if(running_.begin(), running_.end(), [](const Running& r) { return r.busy && r.taken.is_long; });
      auto taken = queue_.take(long_ones + 1 < static_cast<int64_t>(running_.size()) || running_.size() == 1);
      if (!taken) return;
      taken->task.run();
      place = {true, std::move(*taken), current_, now_ + (wanted_[current_] ? costs_[current_] : 0)};
    }
  }

  FairQueue queue_;
  std::vector<Running> running_;
  std::vector<double> costs_, ends_;
  std::vector<bool> wanted_;
  size_t current_ = 0;
  double now_ = 0;
};

TEST(FairQueue, OneClientsTasksOfAKindKeepTheirOrder) {
  Simulation all(1);
  std::vector<size_t> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back(all.add(1, 1000, 0.01 * (i % 3 + 1)));
  all.run_all();
  for (size_t i = 1; i < tasks.size(); ++i) EXPECT_LT(all.ended_at(tasks[i - 1]), all.ended_at(tasks[i]));
}

// Costs are not known before; sizes and kinds are the same.
TEST(FairQueue, ManyTasksOfOneDoNotDelayAnother) {
  for (const int workers : {1, 2, 4}) {
    Simulation all(workers);
    for (int i = 0; i < 60; ++i) all.add(1, 11'000, 0.44);
    for (double at = 0.1; at < 5; at += 0.7) {
      all.run_until(at);
      const size_t neighbour = all.add(2, 11'000, 0.001);
      all.run_until(at + 0.45);
      EXPECT_GT(all.ended_at(neighbour), 0) << workers << " workers, at " << at;
    }
  }
}

// As after a proxy, where all have one address: what is expected to be cheap goes first.
TEST(FairQueue, CheapTasksOfTheSameClientGoBeforeDearOnes) {
  for (const int workers : {1, 2}) {
    Simulation all(workers);
    std::vector<size_t> dear;
    for (int i = 0; i < 60; ++i) dear.push_back(all.add(1, 11'000, 0.44));
    for (double at = 0.5; at < 10; at += 1.3) {
      all.run_until(at);
      const size_t cheap = all.add(1, 200, 0.001);
      all.run_until(at + 0.45);
      EXPECT_GT(all.ended_at(cheap), 0) << workers << " workers, at " << at;
    }
    all.run_all();
    for (const size_t task : dear) EXPECT_GT(all.ended_at(task), 0);
  }
}

TEST(FairQueue, DearTasksAreNotOvertakenForEver) {
  Simulation all(1);
  all.add(1, 5000, 0.1);  // from here on its like are known to be dear
  all.run_until(1);
  const size_t dear = all.add(1, 5000, 0.1);
  double at = 1;
  for (int i = 0; i < 1000; ++i, at += 0.01) {  // cheap ones without a gap
    all.add(1, 100, 0.01);
    all.add(1, 100, 0.01);
    all.run_until(at);
  }
  EXPECT_GT(all.ended_at(dear), 0);
  EXPECT_LT(all.ended_at(dear), 1 + 3 * FairQueue::kOvertaken_s);
}

TEST(FairQueue, TimeIsSharedByCostNotByNumber) {
  Simulation all(1);
  std::vector<size_t> dear, cheap;
  for (int i = 0; i < 200; ++i) dear.push_back(all.add(1, 1000, 0.1));
  for (int i = 0; i < 2000; ++i) cheap.push_back(all.add(2, 1000, 0.01));
  all.run_until(10);
  const auto ended = [&](const std::vector<size_t>& tasks) {
    return std::count_if(tasks.begin(), tasks.end(), [&](size_t task) { return all.ended_at(task) > 0; });
  };
  EXPECT_NEAR(0.1 * static_cast<double>(ended(dear)), 5.0, 0.3);
  EXPECT_NEAR(0.01 * static_cast<double>(ended(cheap)), 5.0, 0.3);
}

// Neither does a pause give credit, nor does work that kept no client waiting count against anybody later.
TEST(FairQueue, OnlyTimeWhileOthersWaitCounts) {
  Simulation all(1);
  for (int i = 0; i < 100; ++i) all.add(1, 1000, 0.1);
  all.run_until(20);
  std::vector<size_t> first, second;
  for (int i = 0; i < 10; ++i) second.push_back(all.add(2, 1000, 0.1));
  for (int i = 0; i < 10; ++i) first.push_back(all.add(1, 1000, 0.1));
  all.run_all();
  for (int i = 0; i < 9; ++i) {
    EXPECT_LT(all.ended_at(first[static_cast<size_t>(i)]), all.ended_at(second.back()))
        << "it does not wait for what it did alone";
    EXPECT_LT(all.ended_at(second[static_cast<size_t>(i)]), all.ended_at(first.back()));
  }
}

TEST(FairQueue, LongTasksLeaveAPlace) {
  Simulation all(2);
  for (int i = 0; i < 5; ++i) all.add(static_cast<uint64_t>(i), 2u << 20, 10);
  all.run_until(1);
  const size_t other = all.add(9, 100, 0.001);
  all.run_until(1.1);
  EXPECT_GT(all.ended_at(other), 0);
  all.run_all();
  EXPECT_EQ(all.waiting(), 0U);
}

TEST(FairQueue, WhatIsNotRunCostsNothingAndTeachesNothing) {
  Simulation all(1);
  all.add(1, 11'000, 0.44);
  all.run_until(1);
  for (int i = 0; i < 50; ++i) all.add(1, 11'000, 0.44, "/chat", false);
  const size_t dear = all.add(1, 11'000, 0.44);
  const size_t cheap = all.add(1, 100, 0.001);
  all.run_all();
  EXPECT_LT(all.ended_at(cheap), all.ended_at(dear));
  EXPECT_NEAR(all.ended_at(dear), 1.441, 1e-6);
}

TEST(FairQueue, ManyClientsComeAndGo) {
  Simulation all(2);
  for (uint64_t client = 0; client < 20'000; ++client) {
    all.add(client, 100, 0.001);
    all.run_until(0.01 * static_cast<double>(client));
  }
  all.run_all();
  EXPECT_EQ(all.waiting(), 0U);
}

}  // namespace
}  // namespace ashlar::server
