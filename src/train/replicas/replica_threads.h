// SPDX-License-Identifier: Apache-2.0
#pragma once
// A thread for each replica but the first, which is the caller's.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ashlar {

class ReplicaThreads {
 public:
  explicit ReplicaThreads(int32_t replicas);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  int32_t replicas() const { return static_cast<int32_t>(threads_.size()) + 1; }

  /// Calls fn(replica) for each, all at the same time, always from the same thread for the same replica, and returns
  /// when all have returned. Where some throw, `failed` is called for each at once, so that the others do not wait for
  /// it, and what the first of them threw, in time, is thrown on.
  void run(const std::function<void(int32_t replica)>& fn, const std::function<void(int32_t replica)>& failed);

 private:
  void close();
  void work(int32_t replica);
  void call(int32_t replica);

  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const std::function<void(int32_t)>* fn_ = nullptr;
  const std::function<void(int32_t)>* failed_ = nullptr;
  uint64_t round_ = 0;
  int32_t running_ = 0;  // of the threads
  bool closed_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace ashlar
