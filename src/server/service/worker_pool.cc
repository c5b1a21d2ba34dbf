#include "server/service/worker_pool.h"

#include <utility>

namespace ashlar::server {

WorkerPool::WorkerPool(int threads, size_t max_waiting) : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    dropped.swap(tasks_);
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || tasks_.size() >= max_waiting_) return false;
    tasks_.push_back(std::move(task));
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
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (stop_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace ashlar::server
