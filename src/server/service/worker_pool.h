// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for work that is too slow for an I/O thread: reading JSON, templates, tokenising, compiling grammars.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/service/fair_queue.h"

namespace ashlar::server {

class WorkerPool {
 public:
  WorkerPool(int threads, size_t max_waiting);
  /// Drops what waits, which lets go of whatever the tasks hold, and joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Queues a task, which must not throw. False if too many wait. Clients share the threads' time (FairQueue). Tasks
  /// that are expected to take long never take the last thread, so that others go on.
  bool post(FairQueue::Task task);
  size_t waiting() const;

 private:
  void work();
  bool long_may_run() const { return long_running_ + 1 < threads_count_ || threads_count_ == 1; }

  const size_t max_waiting_;
  const int threads_count_;
  int long_running_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  FairQueue tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ashlar::server
