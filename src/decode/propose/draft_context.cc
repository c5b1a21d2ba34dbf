#include "decode/propose/draft_context.h"

#include <algorithm>

namespace ashlar {

DraftContext::DraftContext(Ops& ops, Proposer& proposer, const PageTables& tables, const StepLimits& limits,
                           int32_t pages)
    : ops_(ops),
      proposer_(proposer),
      target_tables_(tables),
      max_rows_(limits.max_rows),
      batch_(ops, limits.max_rows, 2 * limits.max_spans),
      device_sources_(ops, limits.max_rows),
      backlogs_(static_cast<size_t>(limits.max_slots)),
      known_(static_cast<size_t>(pages)),
      window_(proposer.window()) {
  const int32_t width = proposer.aux_width();
  const int32_t rows = max_rows_ + limits.max_slots * kPageTokens;
  const DType type = ops.activation_type();
  storage_ = ops.allocate(bytes_of(type) * static_cast<size_t>(rows + max_rows_) * static_cast<size_t>(width));
  all_ = {storage_->data(), rows + max_rows_, width, width, type};
  compact_ = all_.part(rows, max_rows_);
  all_ = all_.narrow(rows);
  sources_.reserve(static_cast<size_t>(max_rows_));
  if (window_ == 0) return;
  const int64_t most = window_pages(window_, proposer.max_width(), limits.max_slots);
  window_pages_ = std::make_unique<WindowPages>(pages, static_cast<int32_t>(std::min<int64_t>(pages, most)));
  tables_ = std::make_unique<PageTables>(ops, limits.max_slots, tables.max_pages());
  window_page_of_.assign(static_cast<size_t>(limits.max_slots) * static_cast<size_t>(tables.max_pages()), -1);
}

// A step touches a sequence's positions from the window's first page to the last row of its block. This many pages for
// every slot are enough to never take a window page that the step needs. Twice as many, and what the last step needed
// outlives this one too: a sequence that drafts in every step never loses its window, however prompts stream through.
// The same half is what prefixes of ended sequences are restored from.
int64_t DraftContext::window_pages(int32_t window, int32_t width, int32_t slots) {
  if (window == 0) return 0;
  // Of `window + width` positions that begin anywhere in a page.
  const int64_t pages = (int64_t{window} + width + kPageTokens - 2) / kPageTokens + 1;
  return 2 * pages * slots;
}

void DraftContext::begin_step() {
  batch_.clear();  // of a step that threw: its page tables may be gone, its window pages may be others' soon
  sources_.clear();
  if (window_pages_) window_pages_->begin_step();
}

// Whole pages fall out of use, so a window begins on a page border.
int32_t DraftContext::window_begin(int32_t end) const {
  return window_ > 0 ? std::max(0, end - window_) / kPageTokens * kPageTokens : 0;
}

const int32_t* DraftContext::table(int32_t slot, const int32_t* pages, int32_t begin, int32_t end) {
  if (!window_pages_) return target_tables_.of(slot);
  ASHLAR_CHECK_LE(end, tables_->max_pages() * kPageTokens);
  int32_t* const known = &window_page_of_[static_cast<size_t>(slot) * static_cast<size_t>(tables_->max_pages())];
  for (int32_t p = begin / kPageTokens; p * kPageTokens < end; ++p) {
    const WindowPages::Claim claim = window_pages_->claim(pages[p]);
    if (known[p] != claim.window_page) tables_->set(slot, p, claim.window_page);
    known[p] = claim.window_page;
    if (claim.evicted != WindowPages::kNone) forget(&claim.evicted, 0, 1);
  }
  return tables_->of(slot);
}

void DraftContext::write(int32_t slot, const int32_t* pages, int32_t row, int32_t position, int32_t n,
                         const int32_t* path) {
  int32_t done = 0;
  if (const int32_t out = window_begin(position + n) - position; out > 0) {
    forget(pages, position, out);
    done = out;
    position += out;
    n -= out;
  }
  const int32_t* translated = table(slot, pages, position, position + n);
  while (n > 0) {
    if (batch_.n() == max_rows_) flush();
    const int32_t now = std::min(n, max_rows_ - batch_.n());
    batch_.begin_sequence(translated);
    for (int32_t r = 0; r < now; ++r) {
      batch_.add_row(0, position + r, 0);
      sources_.push_back(row + (path != nullptr ? path[done + r] : done + r));
      const int32_t offset = (position + r) % kPageTokens;
      uint8_t& known = known_[static_cast<size_t>(pages[(position + r) / kPageTokens])];
      // Rows come in ascending order; one that does not continue what is known leaves a gap.
      if (offset == 0) known = 0;
      if (known == offset) ++known;
    }
    done += now;
    position += now;
    n -= now;
  }
}

void DraftContext::keep(int32_t slot, const int32_t* pages, int32_t row, int32_t position) {
  Backlog& backlog = backlogs_[static_cast<size_t>(slot)];
  if (backlog.n == 0) backlog.position = position;
  ops_.copy(all_.part(row, 1), all_.part(backlog_row(slot) + backlog.n, 1));
  ++backlog.n;
  if ((position + 1) % kPageTokens == 0) write_backlog(slot, pages);
}

void DraftContext::skip(int32_t slot, const int32_t* pages, int32_t position, int32_t n) {
  backlogs_[static_cast<size_t>(slot)] = {};
  forget(pages, position, n);
}

void DraftContext::forget(const int32_t* pages, int32_t position, int32_t n) {
  forgotten_ = true;
  for (int32_t p = position / kPageTokens; p <= (position + n - 1) / kPageTokens; ++p) {
    known_[static_cast<size_t>(pages[p])] = 0;
  }
}

void DraftContext::write_backlog(int32_t slot, const int32_t* pages) {
  Backlog& backlog = backlogs_[static_cast<size_t>(slot)];
  if (backlog.n == 0) return;
  write(slot, pages, backlog_row(slot), backlog.position, backlog.n);
  backlog = {};
}

void DraftContext::flush() {
  const int32_t n = batch_.n();
  if (n == 0) return;
  bool in_order = true;
  for (int32_t r = 1; r < n; ++r) in_order = in_order && sources_[r] == sources_[r - 1] + 1;
  const Tensor rows = in_order ? all_.part(sources_[0], n) : compact_.narrow(n);
  if (!in_order) {
    device_sources_.upload(sources_);
    ops_.gather_rows(all_, device_sources_.device(), rows);
  }
  proposer_.write_context({rows, batch_.rows()});
  batch_.clear();
  sources_.clear();
}

int32_t DraftContext::begin(const int32_t* pages, int32_t position) const {
  const int32_t first = window_begin(position);
  if (!forgotten_ || position == 0) return first;
  for (int32_t p = (position - 1) / kPageTokens; p >= first / kPageTokens; --p) {
    const int32_t needed = std::min(kPageTokens, position - p * kPageTokens);
    if (known_[static_cast<size_t>(pages[p])] < needed) return std::min((p + 1) * kPageTokens, position);
  }
  return first;
}

}  // namespace ashlar
