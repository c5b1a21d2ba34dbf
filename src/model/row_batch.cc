// SPDX-License-Identifier: Apache-2.0
#include "model/row_batch.h"

#include "base/check.h"

namespace ashlar {

RowBatch::RowBatch(Ops& ops, int32_t max_rows, int32_t max_sequences, int32_t max_branches)
    : ops_(ops),
      max_rows_(max_rows),
      max_sequences_(max_sequences + max_branches),
      max_branch_slots_(max_branches * kMaxBranchTokens) {
  // Sizes first, then places: both blocks are laid out alike.
  size_t bytes = 0;
  const auto lay_out = [&](auto& column, int32_t n) {
    constexpr size_t kLine = 64;
    using T = std::remove_pointer_t<decltype(column.host)>;
    if (device_) {
      column.host = reinterpret_cast<T*>(host_.data() + bytes);
      column.device = reinterpret_cast<T*>(device_->data() + bytes);
    }
    bytes += (sizeof(T) * static_cast<size_t>(n) + kLine - 1) / kLine * kLine;
  };
  const auto lay_out_all = [&] {
    bytes = 0;
    for (auto* column : {&ids_, &positions_, &tables_, &block_ends_, &outputs_, &scratch_slots_}) {
      lay_out(*column, max_rows_);
    }
    lay_out(without_kv_, max_rows_);
    lay_out(first_, max_sequences_);
    lay_out(pages_, max_sequences_);
    lay_out(branch_tables_, max_sequences_);
    lay_out(states_, max_sequences_);
    lay_out(branch_slots_, max_branch_slots_);
  };
  lay_out_all();
  host_.resize(bytes);
  device_ = ops.allocate(bytes);
  lay_out_all();
}

void RowBatch::clear() {
  n_ = n_sequences_ = n_outputs_ = n_without_kv_ = n_branch_slots_ = 0;
  changed_ = true;
}

void RowBatch::begin_sequence(const int32_t* pages, int32_t first, const StateSpan& state) {
  ASHLAR_CHECK_LT(n_sequences_, max_sequences_);
  pages_.host[n_sequences_] = pages;
  first_.host[n_sequences_] = first;
  branch_tables_.host[n_sequences_] = {};
  states_.host[n_sequences_] = state;
  ++n_sequences_;
  changed_ = true;
}

void RowBatch::add_row(int32_t id, int32_t position, int32_t block_end) {
  ASHLAR_CHECK_LT(n_, max_rows());
  ids_.host[n_] = id;
  positions_.host[n_] = position;
  tables_.host[n_] = n_sequences_ - 1;
  block_ends_.host[n_] = block_end;
  without_kv_.host[n_] = 0;
  scratch_slots_.host[n_] = -1;
  ++n_;
  changed_ = true;
}

void RowBatch::add_without_kv(int32_t id, int32_t position) {
  add_row(id, position, position);
  without_kv_.host[n_ - 1] = 1;
  ++n_without_kv_;
}

void RowBatch::begin_branch(int32_t first) {
  begin_sequence(pages_.host[n_sequences_ - 1], first_.host[n_sequences_ - 1], states_.host[n_sequences_ - 1]);
  branch_tables_.host[n_sequences_ - 1] = {first, 0, branch_slots_.device + n_branch_slots_};
}

void RowBatch::add_branch_slot(int32_t slot) {
  BranchTable& branch = branch_tables_.host[n_sequences_ - 1];
  ASHLAR_CHECK(n_branch_slots_ < max_branch_slots_ && branch.n < kMaxBranchTokens);
  branch_slots_.host[n_branch_slots_++] = slot;
  ++branch.n;
  changed_ = true;
}

void RowBatch::add_in_scratch_slot(int32_t id, int32_t position, int32_t slot) {
  add_row(id, position, position + 1);
  scratch_slots_.host[n_ - 1] = slot;
}

int32_t RowBatch::want_output() {
  ASHLAR_CHECK(n_outputs_ == 0 || outputs_.host[n_outputs_ - 1] < n_ - 1);
  outputs_.host[n_outputs_] = n_ - 1;
  changed_ = true;
  return n_outputs_++;
}

template <class T>
void RowBatch::upload(const Column<T>& column, int32_t n) const {
  if (n == 0) return;
  ops_.upload(column.host, reinterpret_cast<std::byte*>(column.device), sizeof(T) * static_cast<size_t>(n));
}

void RowBatch::upload() const {
  if (!changed_) return;
  changed_ = false;
  for (const auto* column : {&ids_, &positions_, &tables_, &block_ends_, &scratch_slots_}) upload(*column, n_);
  upload(without_kv_, n_);
  upload(outputs_, n_outputs_);
  upload(first_, n_sequences_);
  upload(pages_, n_sequences_);
  upload(branch_tables_, n_sequences_);
  upload(states_, n_sequences_);
  upload(branch_slots_, n_branch_slots_);
}

Rows RowBatch::rows() const {
  upload();
  const bool branches = n_branch_slots_ > 0;
  Rows rows;
  rows.n = n_;
  rows.ids = ids_.device;
  rows.positions = positions_.device;
  rows.tables = tables_.device;
  rows.page_tables = pages_.device;
  rows.without_kv = n_without_kv_ > 0 ? without_kv_.device : nullptr;
  rows.scratch_slots = branches ? scratch_slots_.device : nullptr;
  rows.branch_tables = branches ? branch_tables_.device : nullptr;
  rows.states = states_.device;
  rows.block_ends = block_ends_.device;
  rows.first_keys = first_.device;
  return rows;
}

const int32_t* RowBatch::outputs() const {
  upload();
  return outputs_.device;
}

}  // namespace ashlar
