// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of training on the CPU: a block's queries of one key/value head at a time, whole rows of scores.

#include <vector>

#include "base/thread_pool.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/train/train_kernels.h"

namespace ashlar::cpu {

class BlockAttentionRunner {
 public:
  BlockAttentionRunner(ThreadPool& pool, const TrainKernels& kernels)
      : pool_(pool), kernels_(kernels), scratch_(static_cast<size_t>(pool.size())) {}

  void forward(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums);
  void backward(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums,
                Tensor d_q, Tensor d_k, Tensor d_v);

 private:
  class Block;
  friend class Block;
  struct Tensors {
    Tensor d_out, q, k, v, out, log_sums, d_q, d_k, d_v;
  };
  /// Keys [start, start + n) of the context that blocks [first_block, last_block) share.
  struct KeyChunk {
    int32_t first_block, last_block, start, n;
  };

  void transpose_context(Tensor x, const BlockAttention& layout, Scratch& to);
  void block_gradient(const Tensors& t, const BlockAttention& layout, int32_t item, int32_t worker);
  void chunk_gradient(const Tensors& t, const BlockAttention& layout, const KeyChunk& chunk, int32_t head,
                      int32_t worker);
  static std::vector<KeyChunk> key_chunks(const BlockAttention& layout);

  ThreadPool& pool_;
  const TrainKernels& kernels_;
  std::vector<Scratch> scratch_;  // of each worker
  Scratch keys_, values_;         // of the context, transposed: [kv_width][context_stride_]
  int64_t context_stride_ = 0;
  std::vector<float> means_;  // [block rows, heads]: sum over keys of probability times its gradient
};

}  // namespace ashlar::cpu
