// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the threads of replicas wait for each other, and what they show each other there.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace ashlar {

class ReplicaBarrier {
 public:
  explicit ReplicaBarrier(int32_t replicas) : shown_(static_cast<size_t>(replicas)) {}

  int32_t replicas() const { return static_cast<int32_t>(shown_.size()); }
  /// Returns when all replicas have called it equally often: what they wrote before is visible. Throws Error("train",
  /// ...) once one of them is gone.
  void wait();
  /// Throws Error("train", ...) once one of them is gone, for those that wait elsewhere for what it would have done.
  void check() const;
  /// The calling replica will not come any more.
  void abandon();

  /// Before a wait(): what the others may use until the next one.
  void show(int32_t replica, void* memory) { shown_[static_cast<size_t>(replica)] = memory; }
  template <class Value>
  Value* shown(int32_t replica) const {
    return static_cast<Value*>(shown_[static_cast<size_t>(replica)]);
  }

  /// What AllReduce says of figures of the host.
  void sum(int32_t replica, std::span<double> values);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int32_t arrived_ = 0;
  uint64_t round_ = 0;
  std::atomic<bool> abandoned_ = false;  // written with the mutex, read without it too
  std::vector<void*> shown_;
};

}  // namespace ashlar
