// SPDX-License-Identifier: Apache-2.0
#pragma once
// Statistics of rows of logits: the GPU folds each tile, the host joins a row's tiles, so that the bits are those of
// row_statistics().

#include <vector>

#include "base/thread_pool.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/kernels.h"
#include "device/row_statistics.h"

namespace ashlar::cuda {

class TileFolder {
 public:
  explicit TileFolder(Memory& memory) : memory_(memory), scratch_(memory) {}

  void clear() { calls_.clear(); }
  /// Which of found() is the row's. adjusted: its row among those of an Adjuster; -1: the row as it is. excluded: a
  /// column that takes no part; -1: none.
  int32_t add(int32_t row, int32_t adjusted, int32_t excluded);
  /// Of the rows that were added; waits.
  void run(const Matrix& logits, const Matrix& adjusted, ThreadPool& pool);
  const std::vector<RowStatistics>& found() const { return found_; }

 private:
  Memory& memory_;
  Scratch scratch_;
  std::vector<FoldCall> calls_;
  std::vector<RowStatistics> found_;
};

}  // namespace ashlar::cuda
