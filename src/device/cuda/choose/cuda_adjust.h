// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of rows of logits with masks, bias and penalties applied, on the GPU.

#include <vector>

#include "device/choose.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/kernels.h"

namespace ashlar::cuda {

class Adjuster {
 public:
  explicit Adjuster(Memory& memory) : rows_memory_(memory), inputs_(memory), memory_(memory) {}

  void clear();
  /// Which row of what run() returns is this request's.
  int32_t add(const RowRequest& request, int32_t vocab);
  /// The rows that were added; nothing if there are none. They stay until the next run.
  Matrix run(const Matrix& logits);

 private:
  /// Once for each column.
  Adjustment& of_column(int32_t column);

  Scratch rows_memory_, inputs_;
  Memory& memory_;
  std::vector<MaskedCopy> copies_;  ///< own rows
  std::vector<uint32_t> masks_;     ///< [masks, words of a row]
  std::vector<Adjustment> adjustments_;
  std::vector<int32_t> places_;  ///< by column: in adjustments_, of the newest row if not before first_
  int32_t first_ = 0;            ///< of the newest row
};

}  // namespace ashlar::cuda
