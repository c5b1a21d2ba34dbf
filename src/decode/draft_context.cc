#include "decode/draft_context.h"

#include <algorithm>

namespace ashlar {

DraftContext::DraftContext(Ops& ops, Proposer& proposer, const StepLimits& limits, int32_t pages)
    : ops_(ops),
      proposer_(proposer),
      max_rows_(limits.max_rows),
      batch_(limits.max_rows, 2 * limits.max_spans),
      backlogs_(static_cast<size_t>(limits.max_slots)),
      known_(static_cast<size_t>(pages)) {
  const int32_t width = proposer.tap_width();
  const int32_t rows = max_rows_ + limits.max_slots * kPageTokens;
  storage_ = ops.allocate(sizeof(float) * static_cast<size_t>(rows + max_rows_) * static_cast<size_t>(width));
  all_ = {reinterpret_cast<float*>(storage_->data()), rows, width, width};
  compact_ = {all_.row(rows), max_rows_, width, width};
  sources_.reserve(static_cast<size_t>(max_rows_));
}

void DraftContext::absorb(const int32_t* pages, int32_t row, int32_t position, int32_t n) {
  while (n > 0) {
    if (batch_.n() == max_rows_) flush();
    const int32_t now = std::min(n, max_rows_ - batch_.n());
    batch_.begin_sequence(pages);
    for (int32_t r = 0; r < now; ++r) {
      batch_.add_row(0, position + r, 0);
      sources_.push_back(row + r);
      const int32_t offset = (position + r) % kPageTokens;
      uint8_t& known = known_[static_cast<size_t>(pages[(position + r) / kPageTokens])];
      // Rows come in ascending order; one that does not continue what is known leaves a hole.
      if (offset == 0) known = 0;
      if (known == offset) ++known;
    }
    row += now;
    position += now;
    n -= now;
  }
}

void DraftContext::keep(int32_t slot, const int32_t* pages, int32_t row, int32_t position) {
  Backlog& backlog = backlogs_[static_cast<size_t>(slot)];
  if (backlog.n == 0) backlog.position = position;
  ops_.copy({all_.row(row), 1, all_.cols, all_.stride},
            {all_.row(backlog_row(slot) + backlog.n), 1, all_.cols, all_.stride});
  ++backlog.n;
  if ((position + 1) % kPageTokens == 0) catch_up(slot, pages);
}

void DraftContext::skip(int32_t slot, const int32_t* pages, int32_t position, int32_t n) {
  backlogs_[static_cast<size_t>(slot)] = {};
  skipped_ = true;
  for (int32_t p = position / kPageTokens; p <= (position + n - 1) / kPageTokens; ++p) {
    known_[static_cast<size_t>(pages[p])] = 0;
  }
}

void DraftContext::catch_up(int32_t slot, const int32_t* pages) {
  Backlog& backlog = backlogs_[static_cast<size_t>(slot)];
  if (backlog.n == 0) return;
  absorb(pages, backlog_row(slot), backlog.position, backlog.n);
  backlog = {};
}

void DraftContext::flush() {
  const int32_t n = batch_.n();
  if (n == 0) return;
  bool in_order = true;
  for (int32_t r = 1; r < n; ++r) in_order = in_order && sources_[r] == sources_[r - 1] + 1;
  Tensor rows = {all_.row(sources_[0]), n, all_.cols, all_.stride};
  if (!in_order) {
    rows = compact_.narrow(n);
    ops_.gather_rows(all_, sources_.data(), rows);
  }
  proposer_.absorb({rows, batch_.rows()});
  batch_.clear();
  sources_.clear();
}

int32_t DraftContext::begin(const int32_t* pages, int32_t position) const {
  if (!skipped_ || position == 0) return 0;
  for (int32_t p = (position - 1) / kPageTokens; p >= 0; --p) {
    const int32_t needed = std::min(kPageTokens, position - p * kPageTokens);
    if (known_[static_cast<size_t>(pages[p])] < needed) return std::min((p + 1) * kPageTokens, position);
  }
  return 0;
}

}  // namespace ashlar
