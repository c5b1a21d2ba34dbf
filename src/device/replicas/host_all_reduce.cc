// SPDX-License-Identifier: Apache-2.0
#include "device/replicas/host_all_reduce.h"

#include <utility>

#include "device/replicas/replica_barrier.h"

namespace ashlar {
namespace {

class HostAllReduce final : public AllReduce {
 public:
  HostAllReduce(std::shared_ptr<ReplicaBarrier> barrier, int32_t replica)
      : barrier_(std::move(barrier)), replica_(replica) {}

  // No two replicas write the same value, and none reads what another writes.
  void sum(float* values, int64_t n) override {
    barrier_->show(replica_, values);
    barrier_->wait();
    const int32_t replicas = barrier_->replicas();
    for (int64_t i = n * replica_ / replicas; i < n * (replica_ + 1) / replicas; ++i) {
      float total = barrier_->shown<float>(0)[i];
      for (int32_t other = 1; other < replicas; ++other) total += barrier_->shown<float>(other)[i];
      for (int32_t other = 0; other < replicas; ++other) barrier_->shown<float>(other)[i] = total;
    }
    barrier_->wait();
  }
  void sum(std::span<double> values) override { barrier_->sum(replica_, values); }
  void abandon() override { barrier_->abandon(); }

 private:
  const std::shared_ptr<ReplicaBarrier> barrier_;
  const int32_t replica_;
};

}  // namespace

std::vector<std::unique_ptr<AllReduce>> connect_on_host(int32_t replicas) {
  const auto barrier = std::make_shared<ReplicaBarrier>(replicas);
  std::vector<std::unique_ptr<AllReduce>> ends;
  for (int32_t replica = 0; replica < replicas; ++replica) {
    ends.push_back(std::make_unique<HostAllReduce>(barrier, replica));
  }
  return ends;
}

}  // namespace ashlar
