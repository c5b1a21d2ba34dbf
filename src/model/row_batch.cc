#include "model/row_batch.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar {

RowBatch::RowBatch(int32_t max_rows, int32_t max_sequences)
    : ids_(max_rows),
      positions_(max_rows),
      tables_(max_rows),
      block_ends_(max_rows),
      outputs_(max_rows),
      apart_(max_rows),
      first_(max_sequences),
      pages_(max_sequences) {}

void RowBatch::clear() { n_ = n_sequences_ = n_outputs_ = n_apart_ = 0; }

void RowBatch::begin_sequence(const int32_t* pages, int32_t first) {
  ASHLAR_CHECK_LT(n_sequences_, static_cast<int32_t>(pages_.size()));
  pages_[n_sequences_] = pages;
  first_[n_sequences_] = first;
  ++n_sequences_;
}

void RowBatch::add_row(int32_t id, int32_t position, int32_t block_end) {
  ASHLAR_CHECK_LT(n_, max_rows());
  ids_[n_] = id;
  positions_[n_] = position;
  tables_[n_] = n_sequences_ - 1;
  block_ends_[n_] = block_end;
  apart_[n_] = 0;
  ++n_;
}

void RowBatch::add_apart(int32_t id, int32_t position) {
  add_row(id, position, position);
  apart_[n_ - 1] = 1;
  ++n_apart_;
}

int32_t RowBatch::want_output() {
  outputs_[n_outputs_] = n_ - 1;
  return n_outputs_++;
}

Rows RowBatch::rows() const {
  return {n_, ids_.data(), positions_.data(), tables_.data(), pages_.data(), n_apart_ > 0 ? apart_.data() : nullptr};
}

void RowBatch::visibility(const LayerAttention& kind, int32_t* begin, int32_t* end) const {
  for (int32_t r = 0; r < n_; ++r) {
    begin[r] = first_[tables_[r]];
    end[r] = kind.causal && apart_[r] == 0 ? positions_[r] + 1 : block_ends_[r];
    if (kind.window > 0) {
      begin[r] = std::max(begin[r], positions_[r] - kind.window + 1);
      end[r] = std::min(end[r], positions_[r] + kind.window);
    }
  }
}

}  // namespace ashlar
