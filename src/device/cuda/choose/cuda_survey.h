// SPDX-License-Identifier: Apache-2.0
#pragma once
// Surveys of rows of logits by the GPU, as lists that the host chooses from.

#include <span>
#include <vector>

#include "device/cuda/cuda_memory.h"
#include "device/cuda/kernels.h"
#include "device/sampling/listed_row.h"

namespace ashlar::cuda {

class Surveyor {
 public:
  explicit Surveyor(Memory& memory) : memory_(memory), scratch_(memory) {}

  void clear() {
    calls_.clear();
    any_by_mass_ = false;
  }
  /// Which survey it is.
  /// adjusted: the request's row among those of an Adjuster; -1: the row as it is.
  int32_t add(const RowRequest& request, const ListWish& wish, int32_t adjusted);
  /// Of the rows that were added; waits.
  void run(const Matrix& logits, const Matrix& adjusted);
  /// Null where the list is not whole.
  ListedRow* found(int32_t survey) {
    return is_whole_[static_cast<size_t>(survey)] ? &rows_[static_cast<size_t>(survey)] : nullptr;
  }

 private:
  static ListedRow::Token token_of(const Listed& listed);
  static void take(const Survey& survey, ListedRow& row);

  Memory& memory_;
  Scratch scratch_;
  std::vector<SurveyCall> calls_;
  bool any_by_mass_ = false;
  std::vector<ListedRow> rows_;
  std::vector<int32_t> lengths_;
  std::vector<uint8_t> is_whole_;
};

}  // namespace ashlar::cuda
