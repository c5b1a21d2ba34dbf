// SPDX-License-Identifier: Apache-2.0
#pragma once
// What trains drafters' heads on a CPU: little next to the products around it.

#include <vector>

#include "base/thread_pool.h"
#include "device/cpu/train/train_kernels.h"

namespace ashlar::cpu {

class TrainHeads {
 public:
  TrainHeads(ThreadPool& pool, const TrainKernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// The ops of TrainOps of the same names.
  void candidate_loss(const ChoosingRows& rows, TokenLoss* losses);
  void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out);
  void block_conv(const BlockConvolution& rows, Store store, Tensor out);
  void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic, float* d_base);
  void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table);

 private:
  TokenLoss loss_of_row(const ChoosingRows& rows, int32_t r) const;
  /// fn(r) of every row, a few of them at a time.
  template <class Fn>
  void for_rows(int32_t rows, const Fn& fn);

  ThreadPool& pool_;
  const TrainKernels& kernels_;
  std::vector<float> partials_;
};

/// The likeliest columns of a row of logits, for the row of `out` with this number.
void list_candidates(const float* logits, int32_t n, const Candidates& out, int32_t row);

}  // namespace ashlar::cpu
