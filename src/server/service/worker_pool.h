#pragma once
// Threads for work that is too slow for an I/O thread: reading JSON, templates, tokenising, compiling grammars.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ashlar::server {

class WorkerPool {
 public:
  WorkerPool(int threads, size_t max_waiting);
  /// Drops what waits, which lets go of whatever the tasks hold, and joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Queues a task, which must not throw. False if too many wait. Long tasks never take the last thread, so that short
  /// ones behind them go on.
  bool post(std::function<void()> task, bool is_long = false);
  size_t waiting() const;

 private:
  struct Task {
    std::function<void()> run;
    bool is_long = false;
  };
  void work();
  std::deque<Task>::iterator next();

  const size_t max_waiting_;
  const int threads_count_;
  int long_running_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Task> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ashlar::server
