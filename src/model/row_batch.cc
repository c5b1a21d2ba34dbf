// SPDX-License-Identifier: Apache-2.0
#include "model/row_batch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace ashlar {
namespace {

/// Numbers of sequences up to this one have the same places in the block, and so have those between powers of two: then
/// passes of one shape are more often alike to the byte, apart from what lies in device memory.
constexpr int32_t kFewSequences = 8;

template <class Column>
size_t room_for(const Column& column, int32_t n) {
  constexpr size_t kLine = 64;
  return (sizeof(*column.host) * static_cast<size_t>(n) + kLine - 1) / kLine * kLine;
}

}  // namespace

template <class Self, class Visit>
void RowBatch::for_columns(Self& self, const Sizes& sizes, const Visit& visit) {
  for (auto* column : {&self.ids_, &self.positions_, &self.tables_, &self.block_ends_, &self.outputs_}) {
    visit(*column, sizes.rows);
  }
  if (sizes.without_kv) visit(self.without_kv_, sizes.rows);
  visit(self.first_, sizes.sequences);
  visit(self.pages_, sizes.sequences);
  visit(self.states_, sizes.sequences);
  if (!sizes.branches) return;
  visit(self.scratch_slots_, sizes.rows);
  visit(self.branch_tables_, sizes.sequences);
  visit(self.branch_slots_, sizes.branch_slots);
}

RowBatch::RowBatch(Ops& ops, int32_t max_rows, int32_t max_sequences, int32_t max_branches)
    : ops_(ops),
      max_rows_(max_rows),
      max_sequences_(max_sequences + max_branches),
      max_branch_slots_(max_branches * kMaxBranchTokens) {
  const Sizes all = {max_rows_, max_sequences_, max_branch_slots_, true, true};
  size_t bytes = 0;
  for_columns(*this, all, [&](const auto& column, int32_t n) { bytes += room_for(column, n); });
  host_.resize(bytes);
  in_use_.resize(bytes);
  device_ = ops.allocate(bytes);
  size_t at = 0;
  for_columns(*this, all, [&](auto& column, int32_t n) {
    column.host = reinterpret_cast<decltype(column.host)>(host_.data() + at);
    at += room_for(column, n);
  });
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
  branch_tables_.host[n_sequences_ - 1] = {first, 0, branch_slots_.host + n_branch_slots_};
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

void RowBatch::upload() const {
  if (!changed_) return;
  changed_ = false;
  const auto sequences = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(n_sequences_)));
  const Sizes sizes = {n_, std::min(std::max(sequences, kFewSequences), max_sequences_), n_branch_slots_,
                       n_without_kv_ > 0, n_branch_slots_ > 0};
  size_t bytes = 0;
  for_columns(*this, sizes, [&](const auto& column, int32_t n) {
    using T = std::remove_pointer_t<decltype(column.host)>;
    std::memcpy(in_use_.data() + bytes, column.host, sizeof(T) * static_cast<size_t>(n));
    column.device = reinterpret_cast<T*>(device_->data() + bytes);
    bytes += room_for(column, n);
  });
  if (sizes.branches) {
    const auto* const from = reinterpret_cast<std::byte*>(branch_tables_.device);
    auto* const tables = reinterpret_cast<BranchTable*>(in_use_.data() + (from - device_->data()));
    for (int32_t t = 0; t < n_sequences_; ++t) {
      if (tables[t].slots != nullptr) tables[t].slots = branch_slots_.device + (tables[t].slots - branch_slots_.host);
    }
  }
  ops_.upload(in_use_.data(), device_->data(), bytes);
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
