#include "server/service/worker_pool.h"

#include <algorithm>
#include <utility>

#include "base/time_slices.h"

namespace ashlar::server {

WorkerPool::WorkerPool(int threads, size_t max_waiting) : max_waiting_(max_waiting), threads_count_(threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    dropped.swap(tasks_);
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::post(std::function<void()> task, bool is_long) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || tasks_.size() >= max_waiting_) return false;
    tasks_.push_back({std::move(task), is_long});
  }
  ready_.notify_one();
  return true;
}

size_t WorkerPool::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

// The oldest task that may run now; long ones leave a thread to the others.
std::deque<WorkerPool::Task>::iterator WorkerPool::next() {
  const bool room = long_running_ + 1 < threads_count_ || threads_count_ == 1;
  return std::find_if(tasks_.begin(), tasks_.end(), [room](const Task& task) { return room || !task.is_long; });
}

void WorkerPool::work() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stop_ || next() != tasks_.end(); });
      if (stop_) return;
      const auto at = next();
      task = std::move(*at);
      tasks_.erase(at);
      long_running_ += task.is_long ? 1 : 0;
    }
    suit_time_slices();
    task.run();
    if (!task.is_long) continue;
    {
      const std::lock_guard lock(mutex_);
      --long_running_;
    }
    ready_.notify_all();
  }
}

}  // namespace ashlar::server
