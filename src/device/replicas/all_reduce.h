// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over the replicas of a trainer: copies of it that each compute a part of a step, in threads of one process.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ashlar {

/// One replica's end. Every replica makes the same calls with the same lengths, in the same order, from a thread of its
/// own; each waits for the others. All of them receive the same bits. Throws Error("train", ...) where a replica calls
/// abandon() before all have their sums, and whatever the device fails with; the group is of no use then.
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// values [n] become the sums of all replicas' values. They lie in the memory of the end's device, and nothing that
  /// was asked of it may still write them. Returns when they are there.
  virtual void sum(float* values, int64_t n) = 0;
  /// The same for figures of the host, added in the order of the replicas.
  virtual void sum(std::span<double> values) = 0;
  /// This replica will call no more, so the others need not wait: also those whose GPUs are in the midst of a sum.
  virtual void abandon() = 0;
};

/// The ends of one group, for trainers on these devices in their order: several times a device of the host, or GPUs
/// that differ ("cuda:0", "cuda:1"; by NCCL). Throws Error("cuda", ...) where NCCL is missing or a GPU is.
std::vector<std::unique_ptr<AllReduce>> connect_replicas(std::span<const std::string> devices);

}  // namespace ashlar
