#pragma once
// The rows of one forward, owned: filled anew each step inside memory that is sized once.

#include <cstdint>
#include <span>
#include <vector>

#include "device/rows.h"
#include "model/config.h"

namespace ashlar {

/// What one call of a model's forward computes. Capacity is fixed at construction; add_* never allocate.
class RowBatch {
 public:
  RowBatch(int32_t max_rows, int32_t max_sequences, int32_t max_branches = 0);

  void clear();
  /// Starts the rows of one sequence: `pages[position / kPageTokens]` are its pages; rows see keys from `first` on
  /// (0, or the start of a draft window).
  /// What recurrent layers read and write of it is `state`.
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
  int32_t max_rows() const { return static_cast<int32_t>(ids_.size()); }
  int32_t* ids() { return ids_.data(); }
  const int32_t* outputs() const { return outputs_.data(); }
  int32_t position(int32_t row) const { return positions_[row]; }

  Rows rows() const;
  /// Fills `begin` and `end` ([n] each) for layers of this kind.
  void visibility(const LayerAttention& kind, int32_t* begin, int32_t* end) const;

 private:
  int32_t n_ = 0;
  int32_t n_sequences_ = 0;
  int32_t n_outputs_ = 0;
  int32_t n_without_kv_ = 0;
  int32_t n_branch_slots_ = 0;
  std::vector<int32_t> ids_, positions_, tables_, block_ends_, outputs_;
  std::vector<uint8_t> without_kv_;
  std::vector<int32_t> first_;              // per sequence
  std::vector<const int32_t*> pages_;       // per sequence
  std::vector<BranchTable> branch_tables_;  // per sequence
  std::vector<StateSpan> states_;           // per sequence
  std::vector<int32_t> scratch_slots_;      // per row
  std::vector<int32_t> branch_slots_;       // what branch tables point to
};

}  // namespace ashlar
