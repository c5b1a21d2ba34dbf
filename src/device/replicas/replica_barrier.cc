// SPDX-License-Identifier: Apache-2.0
#include "device/replicas/replica_barrier.h"

#include <algorithm>

#include "base/error.h"

namespace ashlar {
namespace {

[[noreturn]] void fail_for_another() { throw Error("train", "another replica of the trainer failed"); }

}  // namespace

void ReplicaBarrier::wait() {
  std::unique_lock lock(mutex_);
  const uint64_t round = round_;
  if (++arrived_ == replicas() && !abandoned_) {
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return abandoned_ || round_ != round; });
  // A round that was complete before a replica went is complete.
  if (round_ == round) fail_for_another();
}

void ReplicaBarrier::check() const {
  if (abandoned_) fail_for_another();
}

void ReplicaBarrier::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

void ReplicaBarrier::sum(int32_t replica, std::span<double> values) {
  show(replica, values.data());
  wait();
  std::vector<double> sums(values.size());
  for (int32_t other = 0; other < replicas(); ++other) {
    const double* const from = shown<double>(other);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += from[i];
  }
  wait();  // all have read
  std::copy(sums.begin(), sums.end(), values.begin());
}

}  // namespace ashlar
