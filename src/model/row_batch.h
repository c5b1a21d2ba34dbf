// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of one forward, owned: filled anew each step inside memory that is sized once.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/ops.h"
#include "device/rows.h"
#include "model/config.h"

namespace ashlar {

/// What one call of a model's forward computes. Filled on the host; rows() brings what is new to the device. Capacity
/// is fixed at construction; add_* never allocate.
class RowBatch {
 public:
  RowBatch(Ops& ops, int32_t max_rows, int32_t max_sequences, int32_t max_branches = 0);

  void clear();
  /// Starts the rows of one sequence: `pages[position / kPageTokens]` are its pages, in device memory; rows see keys
  /// from `first` on (0, or the start of a draft window). What recurrent layers read and write of it is `state`.
  void begin_sequence(const int32_t* pages, int32_t first = 0, const StateSpan& state = {});
  /// Adds a row. `block_end`: one past the last position that a non-causal layer lets it see.
  void add_row(int32_t id, int32_t position, int32_t block_end);
  /// Adds a row without KV: it sees all before `position` and itself, in every layer, and nothing sees it.
  void add_without_kv(int32_t id, int32_t position);
  /// Starts rows of the same sequence that see other keys from position `first` on: those in the scratch slots that
  /// add_branch_slot() names, one after another.
  void begin_branch(int32_t first);
  void add_branch_slot(int32_t slot);
  /// Adds a row whose K and V go to `slot`. It sees all up to `position`.
  void add_in_scratch_slot(int32_t id, int32_t position, int32_t slot);
  /// Asks for the final hidden state of the row added last, once; returns its index among the outputs.
  int32_t want_output();

  int32_t n() const { return n_; }
  int32_t n_outputs() const { return n_outputs_; }
  int32_t max_rows() const { return max_rows_; }
  int32_t first_output() const { return outputs_.host[0]; }  ///< the row; there are outputs
  int32_t position(int32_t row) const { return positions_.host[row]; }
  /// Of a row that was added in one, or -1.
  int32_t scratch_slot(int32_t row) const { return scratch_slots_.host[row]; }

  /// The rows as ops see them, in device memory.
  Rows rows() const;
  /// [n_outputs] rows, ascending, in device memory.
  const int32_t* outputs() const;

 private:
  /// An array: filled at a place of its own, from which rows() copies what is in use of all columns to one block, one
  /// after the other, so that they reach the device together.
  template <class T>
  struct Column {
    T* host = nullptr;
    mutable T* device = nullptr;
  };
  struct Sizes {
    int32_t rows, sequences, branch_slots;
    bool without_kv, branches;  ///< whether there are columns of rows without KV, and of branches
  };
  /// Calls visit(column, size) for every column that there is.
  template <class Self, class Visit>
  static void for_columns(Self& self, const Sizes& sizes, const Visit& visit);
  void upload() const;

  Ops& ops_;
  int32_t max_rows_, max_sequences_, max_branch_slots_;
  int32_t n_ = 0;
  int32_t n_sequences_ = 0;
  int32_t n_outputs_ = 0;
  int32_t n_without_kv_ = 0;
  int32_t n_branch_slots_ = 0;
  mutable bool changed_ = true;
  std::vector<std::byte> host_;
  mutable std::vector<std::byte> in_use_;  // as device_ is to be
  std::unique_ptr<Buffer> device_;
  Column<int32_t> ids_, positions_, tables_, block_ends_, outputs_, scratch_slots_;  // by row
  Column<uint8_t> without_kv_;                                                       // by row
  Column<int32_t> first_;                                                            // by sequence, as the next ones
  Column<const int32_t*> pages_;
  Column<StateSpan> states_;
  Column<BranchTable> branch_tables_;  // their slots point to those of the host
  Column<int32_t> branch_slots_;
};

}  // namespace ashlar
