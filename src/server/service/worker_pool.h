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

  /// Queues a task, which must not throw. False if too many wait.
  bool post(std::function<void()> task);
  size_t waiting() const;

 private:
  void work();

  const size_t max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ashlar::server
