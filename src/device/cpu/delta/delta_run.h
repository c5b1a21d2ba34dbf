// SPDX-License-Identifier: Apache-2.0
#pragma once
// One call of a gated delta net: what a worker does for the value heads of one key head of one sequence. Channels
// belong to one key head each, so that no two workers read or write the same part of a state or a log.

#include "device/cpu/isa/kernels.h"
#include "device/delta_net.h"

namespace ashlar::cpu {

class DeltaRun {
 public:
  DeltaRun(const Kernels& kernels, Tensor in, const DeltaNet& net, Tensor out)
      : kernels_(kernels), in_(in), net_(net), shape_(net.shape), out_(out) {}

  /// Bytes of scratch that a worker needs.
  size_t scratch_bytes() const;
  /// Rows [first, first + n), which are those of a sequence.
  void run(int32_t first, int32_t n, int32_t k_head, std::byte* scratch) const;

 private:
  struct Work;
  int32_t max_rows() const;
  const float* input(const Work& work, int32_t index) const;
  void prepare(const Work& work, int32_t row, int32_t place) const;
  void convolve(const Work& work, int32_t row, int32_t channel, int32_t n, float* to) const;
  void run_rows(const Work& work, int32_t row, int32_t count, bool replays, bool keeps) const;
  void finish(const Work& work, int32_t row, int32_t head, int32_t count) const;
  void write_log(const Work& work) const;
  void copy_inputs(const Work& work, int32_t from, float* to) const;

  const Kernels& kernels_;
  Tensor in_;
  const DeltaNet& net_;
  const DeltaShape& shape_;
  Tensor out_;
};

}  // namespace ashlar::cpu
