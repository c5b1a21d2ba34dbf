// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/replicas/nccl_all_reduce.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "base/check.h"
#include "device/cuda/cuda_found.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/replicas/nccl.h"
#include "device/replicas/replica_barrier.h"

namespace ashlar {
namespace cuda {
namespace {

/// Values that are summed at once: 64 MiB, which both GPUs' links are busy with for tenths of a millisecond.
constexpr int64_t kBucket = int64_t{1} << 24;

struct Group {
  explicit Group(std::span<const int32_t> devices) : nccl(devices), barrier(static_cast<int32_t>(devices.size())) {}
  Nccl nccl;
  ReplicaBarrier barrier;
};

// Memory as NCCL wants it: of the one GPU, and open to others of the process, which neither memory that the host
// addresses too nor that of a pool is.
class Bucket {
 public:
  explicit Bucket(int32_t device) {
    enter_device(device);
    check(cudaMalloc(reinterpret_cast<void**>(&data_), sizeof(float) * kBucket), "cudaMalloc");
  }
  ~Bucket() { cudaFree(data_); }
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;
  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

class NcclAllReduce final : public AllReduce {
 public:
  NcclAllReduce(std::shared_ptr<Group> group, int32_t replica, int32_t device)
      : group_(std::move(group)), replica_(replica), memory_(device), bucket_(device) {}

  // Nothing is queued before all are there, so that a replica that failed before leaves no GPU waiting for it. Once it
  // is, each thread ends its own GPU's part where another fails: a communicator is never used by two threads.
  void sum(float* values, int64_t n) override {
    group_->barrier.wait();
    try {
      queue_sum(values, n);
      while (!is_done()) {  // a wait for the GPU would last for ever where another replica's is gone
        group_->barrier.check();
        std::this_thread::yield();
      }
    } catch (...) {
      group_->barrier.abandon();  // first: others are to fail for this one, not for what its end does to their sums
      group_->nccl.abort(replica_);
      throw;
    }
  }
  void sum(std::span<double> values) override { group_->barrier.sum(replica_, values); }
  void abandon() override { group_->barrier.abandon(); }

 private:
  void queue_sum(float* values, int64_t n) {
    for (int64_t first = 0; first < n; first += kBucket) {
      const auto count = static_cast<size_t>(std::min(kBucket, n - first));
      copy(values + first, bucket_.data(), count);
      group_->nccl.sum(replica_, bucket_.data(), count, memory_.stream());
      copy(bucket_.data(), values + first, count);
    }
  }
  bool is_done() const {
    const cudaError_t status = cudaStreamQuery(memory_.queue());
    if (status == cudaErrorNotReady) {
      group_->nccl.check_queued(replica_);
      return false;
    }
    check(status, "adding up gradients");
    return true;
  }
  void copy(const float* from, float* to, size_t n) {
    check(cudaMemcpyAsync(to, from, sizeof(float) * n, cudaMemcpyDefault, memory_.queue()), "copying gradients");
  }

  const std::shared_ptr<Group> group_;
  const int32_t replica_;
  Memory memory_;
  Bucket bucket_;
};

}  // namespace
}  // namespace cuda

std::vector<std::unique_ptr<AllReduce>> connect_by_nccl(std::span<const int32_t> devices) {
  ASHLAR_CHECK_EQ(std::set<int32_t>(devices.begin(), devices.end()).size(), devices.size());
  for (const int32_t device : devices) cuda::require_device(device);
  const auto group = std::make_shared<cuda::Group>(devices);
  std::vector<std::unique_ptr<AllReduce>> ends;
  for (size_t replica = 0; replica < devices.size(); ++replica) {
    ends.push_back(std::make_unique<cuda::NcclAllReduce>(group, static_cast<int32_t>(replica), devices[replica]));
  }
  return ends;
}

}  // namespace ashlar
