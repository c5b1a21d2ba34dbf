// SPDX-License-Identifier: Apache-2.0
#include "server/service/worker_pool.h"

#include <ctime>
#include <utility>

namespace ashlar::server {
namespace {

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

WorkerPool::WorkerPool(int threads, size_t max_waiting) : max_waiting_(max_waiting), threads_count_(threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  FairQueue dropped;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    std::swap(dropped, tasks_);
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::post(FairQueue::Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || tasks_.size() >= max_waiting_) return false;
    tasks_.push(std::move(task));
  }
  ready_.notify_one();
  return true;
}

size_t WorkerPool::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void WorkerPool::work() {
  for (;;) {
    std::optional<FairQueue::Taken> taken;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stop_ || tasks_.can_take(long_may_run()); });
      if (stop_) return;
      taken = tasks_.take(long_may_run());
      long_running_ += taken->is_long ? 1 : 0;
    }
    const double start = thread_cpu_seconds();
    const bool wanted = !taken->task.wanted || taken->task.wanted();
    if (wanted) taken->task.run();
    taken->task.run = nullptr;  // lets go of what it holds
    const double cost = thread_cpu_seconds() - start;
    {
      const std::lock_guard lock(mutex_);
      long_running_ -= taken->is_long ? 1 : 0;
      if (stop_) return;
      if (wanted) {
        tasks_.done(*taken, cost);
      } else {
        tasks_.dropped(*taken);
      }
    }
    if (taken->is_long) ready_.notify_all();
  }
}

}  // namespace ashlar::server
