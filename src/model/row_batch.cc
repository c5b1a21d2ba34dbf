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
      scratch_slots_(max_rows),
      branch_slots_(static_cast<size_t>(max_branches) * kMaxBranchTokens) {}

void RowBatch::clear() { n_ = n_sequences_ = n_outputs_ = n_without_kv_ = n_branch_slots_ = 0; }

void RowBatch::begin_sequence(const int32_t* pages, int32_t first) {
  ASHLAR_CHECK_LT(n_sequences_, static_cast<int32_t>(pages_.size()));
  pages_[n_sequences_] = pages;
  first_[n_sequences_] = first;
  branch_tables_[n_sequences_] = {};
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
          branches ? branch_tables_.data() : nullptr};
}

bool RowBatch::cut(std::span<RowPart> parts, std::span<const int64_t> work) const {
  constexpr int32_t kEven = 4;  // between sequences if the largest part has a quarter more work than the mean at most
  const auto count = static_cast<int32_t>(parts.size());
  ASHLAR_CHECK(count <= n_ && static_cast<int32_t>(work.size()) == n_ + 1);
  const int64_t whole = work[n_] - work[0];
  const auto share = [&](int32_t part) { return work[0] + whole * part / count; };  // work before it, ideally
  const auto row_at = [&](int32_t part) {
    return static_cast<int32_t>(std::lower_bound(work.begin(), work.end(), share(part)) - work.begin());
  };
  const auto is_border = [&](int32_t row) {
    return row == 0 || row == n_ || pages_[tables_[row]] != pages_[tables_[row - 1]];
  };
  const auto output = [&](int32_t row) {
    return static_cast<int32_t>(std::lower_bound(outputs_.begin(), outputs_.begin() + n_outputs_, row) -
                                outputs_.begin());
  };
  const auto set = [&](int32_t part, int32_t first, int32_t end) {
    parts[part] = {first, end - first, output(first), output(end) - output(first)};
  };
  bool apart = true;
  for (int32_t part = 0, first = 0; part < count && apart; ++part) {
    int32_t above = row_at(part + 1);
    int32_t below = above;
    while (!is_border(above)) ++above;
    while (!is_border(below)) --below;
    const int64_t ideal = share(part + 1);
    const int32_t end = work[above] - ideal <= ideal - work[below] ? above : below;
    apart = end > first && (work[end] - work[first]) * count * kEven <= whole * (kEven + 1);
    if (apart) set(part, first, end);
    first = end;
  }
  if (apart) return true;
  for (int32_t part = 0, first = 0; part < count; ++part) {
    const int32_t end = std::clamp(row_at(part + 1), first + 1, n_ - (count - part - 1));
    set(part, first, end);
    first = end;
  }
  return false;
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
