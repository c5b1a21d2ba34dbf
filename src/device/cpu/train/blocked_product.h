// SPDX-License-Identifier: Apache-2.0
#pragma once
// Large fp32 products: the right factor is packed into panels as wide as a tile, the left one too unless its rows are
// in one piece each, and tiles of the result are computed on all threads. Depth is walked in fixed pieces, so the order
// of each sum depends on its length alone.

#include "base/thread_pool.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/train/train_kernels.h"
#include "device/ops.h"

namespace ashlar::cpu {

/// Element (i, j) at data[i * row + j * column]; one of the strides is 1.
struct Factor {
  const float* data = nullptr;
  int64_t row = 0;
  int64_t column = 0;
};

inline Factor as_it_is(Tensor t) { return {t.row(0), t.stride, 1}; }
inline Factor transposed(Tensor t) { return {t.row(0), 1, t.stride}; }

class BlockedProduct {
 public:
  BlockedProduct(ThreadPool& pool, const TrainKernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// out [m, n] = a [m, depth] b [depth, n], stored or added.
  void run(const Factor& a, const Factor& b, int32_t depth, Store store, Tensor out);

 private:
  /// The left factor's rows as tiles take them.
  struct Left {
    const float* data;
    int64_t row, column;
    int32_t rows;         ///< of a tile
    int64_t tile_stride;  ///< from the first row of a tile to that of the next
  };
  void multiply(const Left& left, const float* right, int32_t depth, bool add, Tensor out);

  ThreadPool& pool_;
  const TrainKernels& kernels_;
  Scratch left_;   // panels of a: [panel][depth][tile_rows]
  Scratch right_;  // panels of b: [panel][depth][tile_columns]
};

}  // namespace ashlar::cpu
