#include "model/row_batch.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar {

RowBatch::RowBatch(int32_t max_rows, int32_t max_sequences, int32_t max_branches)
    : ids_(max_rows),
      positions_(max_rows),
      tables_(max_rows),
      block_ends_(max_rows),
      outputs_(max_rows),
      without_kv_(max_rows),
      first_(max_sequences + max_branches),
      pages_(max_sequences + max_branches),
      branch_tables_(max_sequences + max_branches),
      states_(max_sequences + max_branches),
      scratch_slots_(max_rows),
      branch_slots_(static_cast<size_t>(max_branches) * kMaxBranchTokens) {}

void RowBatch::clear() { n_ = n_sequences_ = n_outputs_ = n_without_kv_ = n_branch_slots_ = 0; }

void RowBatch::begin_sequence(const int32_t* pages, int32_t first, const StateSpan& state) {
  ASHLAR_CHECK_LT(n_sequences_, static_cast<int32_t>(pages_.size()));
  pages_[n_sequences_] = pages;
  first_[n_sequences_] = first;
  branch_tables_[n_sequences_] = {};
  states_[n_sequences_] = state;
  ++n_sequences_;
}

void RowBatch::add_row(int32_t id, int32_t position, int32_t block_end) {
  ASHLAR_CHECK_LT(n_, max_rows());
  ids_[n_] = id;
  positions_[n_] = position;
  tables_[n_] = n_sequences_ - 1;
  block_ends_[n_] = block_end;
  without_kv_[n_] = 0;
  scratch_slots_[n_] = -1;
  ++n_;
}

void RowBatch::add_without_kv(int32_t id, int32_t position) {
  add_row(id, position, position);
  without_kv_[n_ - 1] = 1;
  ++n_without_kv_;
}

void RowBatch::begin_branch(int32_t first) {
  begin_sequence(pages_[n_sequences_ - 1], first_[n_sequences_ - 1]);
  branch_tables_[n_sequences_ - 1] = {first, 0, branch_slots_.data() + n_branch_slots_};
}

void RowBatch::add_branch_slot(int32_t slot) {
  BranchTable& branch = branch_tables_[n_sequences_ - 1];
  ASHLAR_CHECK(n_branch_slots_ < static_cast<int32_t>(branch_slots_.size()) && branch.n < kMaxBranchTokens);
  branch_slots_[n_branch_slots_++] = slot;
  ++branch.n;
}

void RowBatch::add_in_scratch_slot(int32_t id, int32_t position, int32_t slot) {
  add_row(id, position, position + 1);
  scratch_slots_[n_ - 1] = slot;
}

int32_t RowBatch::want_output() {
  ASHLAR_CHECK(n_outputs_ == 0 || outputs_[n_outputs_ - 1] < n_ - 1);
  outputs_[n_outputs_] = n_ - 1;
  return n_outputs_++;
}

Rows RowBatch::rows() const {
  const bool branches = n_branch_slots_ > 0;
  return {n_,
          ids_.data(),
          positions_.data(),
          tables_.data(),
          pages_.data(),
          n_without_kv_ > 0 ? without_kv_.data() : nullptr,
          branches ? scratch_slots_.data() : nullptr,
          branches ? branch_tables_.data() : nullptr,
          states_.data()};
}

void RowBatch::visibility(const LayerAttention& kind, int32_t* begin, int32_t* end) const {
  for (int32_t r = 0; r < n_; ++r) {
    begin[r] = first_[tables_[r]];
    end[r] = kind.causal && without_kv_[r] == 0 ? positions_[r] + 1 : block_ends_[r];
    if (kind.window > 0) {
      begin[r] = std::max(begin[r], positions_[r] - kind.window + 1);
      end[r] = std::min(end[r], positions_[r] + kind.window);
    }
  }
}

}  // namespace ashlar
