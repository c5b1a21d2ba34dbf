// SPDX-License-Identifier: Apache-2.0
#include "train/replicas/replica_threads.h"

#include <utility>

namespace ashlar {

ReplicaThreads::ReplicaThreads(int32_t replicas) {
  try {
    for (int32_t replica = 1; replica < replicas; ++replica) threads_.emplace_back([this, replica] { work(replica); });
  } catch (...) {  // those that could be made
    close();
    throw;
  }
}

ReplicaThreads::~ReplicaThreads() { close(); }

void ReplicaThreads::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::call(int32_t replica) {
  try {
    (*fn_)(replica);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    (*failed_)(replica);
  }
}

void ReplicaThreads::work(int32_t replica) {
  uint64_t done = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [&] { return closed_ || round_ != done; });
    if (closed_) return;
    done = round_;
    lock.unlock();
    call(replica);
    lock.lock();
    if (--running_ == 0) ended_.notify_all();
  }
}

void ReplicaThreads::run(const std::function<void(int32_t)>& fn, const std::function<void(int32_t)>& failed) {
  {
    const std::lock_guard lock(mutex_);
    fn_ = &fn;
    failed_ = &failed;
    failure_ = nullptr;
    running_ = static_cast<int32_t>(threads_.size());
    ++round_;
  }
  begun_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return running_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace ashlar
