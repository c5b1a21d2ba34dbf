// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/draft_context.h"

#include <algorithm>

namespace ashlar {

DraftContext::DraftContext(Ops& ops, Proposer& proposer, const PageTables& tables, const StepLimits& limits,
                           int32_t pages, KvPlane page_ends)
    : ops_(ops),
      proposer_(proposer),
      target_tables_(tables),
      max_rows_(limits.max_rows),
      batch_(ops, limits.max_rows, 2 * limits.max_spans),
      device_sources_(ops, limits.max_rows),
      backlogs_(static_cast<size_t>(limits.max_slots)),
      device_moves_(ops, 2 * int64_t{limits.max_rows}),
      known_(static_cast<size_t>(pages)),
      reads_before_(proposer.reads_before()),
      reads_newest_(proposer.reads_newest()),
      newest_(static_cast<size_t>(limits.max_slots), kUnknown),
      has_end_(static_cast<size_t>(pages)),
      window_(proposer.window()) {
  const int32_t width = proposer.aux_width();
  const int32_t rows = newest_row(limits.max_slots);
  const DType type = ops.activation_type();
  storage_ = ops.allocate(bytes_of(type) * static_cast<size_t>(rows + max_rows_) * static_cast<size_t>(width));
  all_ = {storage_->data(), rows + max_rows_, width, width, type};
  compact_ = all_.part(rows, max_rows_);
  all_ = all_.narrow(rows);
  page_ends_ = {page_ends.base, pages, width, page_ends.page_stride / static_cast<int64_t>(bytes_of(type)), type};
  sources_.reserve(static_cast<size_t>(max_rows_));
  written_.reserve(static_cast<size_t>(max_rows_));
  ids_.reserve(static_cast<size_t>(max_rows_));
  for (Moves* moves : {&kept_, &newest_moves_}) {
    moves->from.reserve(2 * static_cast<size_t>(max_rows_));  // and those of `to` after them, for one upload
    moves->to.reserve(static_cast<size_t>(max_rows_));
  }
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

int64_t DraftContext::page_end_bytes(const Ops& ops, bool reads_before, int64_t aux_width) {
  return reads_before ? aux_width * static_cast<int64_t>(bytes_of(ops.activation_type())) : 0;
}

void DraftContext::begin_step() {
  batch_.clear();  // of a step that threw: its page tables may be gone, its window pages may be others' soon
  sources_.clear();
  kept_.clear();
  newest_moves_.clear();
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

// Where the slot's newest hidden state is: what has come in this step moves to newest() with the next flush.
int32_t DraftContext::row_of_newest(int32_t slot) const {
  const bool moves = !newest_moves_.to.empty() && newest_moves_.to.back() == newest_row(slot);
  return moves ? newest_moves_.from.back() : newest_row(slot);
}

void DraftContext::know_newest(int32_t slot, int32_t row, int32_t position) {
  if (!newest_moves_.to.empty() && newest_moves_.to.back() == newest_row(slot)) {
    newest_moves_.from.back() = row;
  } else {
    newest_moves_.add(row, newest_row(slot));
  }
  newest_[slot] = position;
}

// Whether the hidden state before `position` is known as the slot's newest.
bool DraftContext::find_newest(int32_t slot, const int32_t* pages, int32_t position) {
  if (position > 0 && newest_[slot] == position - 1) return true;
  if (position == 0 || position % kPageTokens != 0) return false;
  const int32_t page = pages[position / kPageTokens - 1];
  if (!has_end_[static_cast<size_t>(page)]) return false;
  ops_.copy(page_ends_.part(page, 1), all_.part(newest_row(slot), 1));
  newest_[slot] = position - 1;
  return true;
}

// A row for which the hidden state before it is missing. At position 0 there is none, and no draft looks there.
void DraftContext::leave_out(const int32_t* pages, int32_t position) {
  if (position > 0) return forget(pages, position, 1);
  known_[static_cast<size_t>(pages[0])] = 1;
}

void DraftContext::keep_page_end(const int32_t* pages, int32_t row, int32_t position) {
  if ((position + 1) % kPageTokens != 0) return;
  const int32_t page = pages[position / kPageTokens];
  ops_.copy(all_.part(row, 1), page_ends_.part(page, 1));
  has_end_[static_cast<size_t>(page)] = true;
}

void DraftContext::write(int32_t slot, const int32_t* pages, int32_t row, int32_t position, int32_t n,
                         const int32_t* path, const int32_t* ids) {
  written_.clear();
  ids_.clear();
  const auto row_of = [&](int32_t i) { return path != nullptr ? path[i] : i; };
  int32_t first = 0;
  if (reads_before_ && n > 0 && !find_newest(slot, pages, position)) {
    leave_out(pages, position);
    first = 1;
  }
  for (int32_t i = first; i < n; ++i) {
    const int32_t before = i > 0 ? row + row_of(i - 1) : row_of_newest(slot);
    written_.push_back(reads_before_ ? before : row + row_of(i));
    ids_.push_back(ids != nullptr ? ids[row_of(i)] : 0);
  }
  add_rows(slot, pages, position + first, written_, ids_);
  if (!reads_newest_ || n == 0) return;
  for (int32_t i = 0; reads_before_ && i < n; ++i) keep_page_end(pages, row + row_of(i), position + i);
  know_newest(slot, row + row_of(n - 1), position + n - 1);
}

void DraftContext::add_rows(int32_t slot, const int32_t* pages, int32_t position, std::span<const int32_t> sources,
                            std::span<const int32_t> ids) {
  if (sources.empty()) return;
  const auto all = static_cast<int32_t>(sources.size());
  int32_t done = 0;
  if (const int32_t out = window_begin(position + all) - position; out > 0) {
    forget(pages, position, out);
    done = out;
  }
  // A head of several layers attends as it writes: to what is known before, as its drafts will.
  const int32_t first = std::max(begin(pages, position + done), window_begin(position + all));
  const int32_t* translated = table(slot, pages, std::min(first, position + done), position + all);
  while (done < all) {
    if (batch_.n() == max_rows_) flush();
    const int32_t end = std::min(all, done + max_rows_ - batch_.n());
    batch_.begin_sequence(translated, reads_before_ ? std::max(first, std::min(position + done, 1)) : first);
    for (; done < end; ++done) {
      batch_.add_row(ids[static_cast<size_t>(done)], position + done, 0);
      sources_.push_back(sources[static_cast<size_t>(done)]);
      const int32_t offset = (position + done) % kPageTokens;
      uint8_t& known = known_[static_cast<size_t>(pages[(position + done) / kPageTokens])];
      // Rows come in ascending order; one that does not continue what is known leaves a gap.
      if (offset == 0) known = 0;
      if (known == offset) ++known;
    }
  }
}

void DraftContext::keep(int32_t slot, const int32_t* pages, int32_t row, int32_t position, int32_t id) {
  Backlog& backlog = backlogs_[static_cast<size_t>(slot)];
  if (reads_before_ && !find_newest(slot, pages, position)) {
    leave_out(pages, position);
  } else {
    if (backlog.n == 0) backlog.position = position;
    backlog.ids[backlog.n] = id;
    kept_.add(reads_before_ ? row_of_newest(slot) : row, backlog_row(slot) + backlog.n);
    ++backlog.n;
  }
  if (reads_newest_) know_newest(slot, row, position);
  if (reads_before_) keep_page_end(pages, row, position);
  if ((position + 1) % kPageTokens == 0) write_backlog(slot, pages);
}

void DraftContext::skip(int32_t slot, const int32_t* pages, int32_t position, int32_t n) {
  backlogs_[static_cast<size_t>(slot)] = {};
  forget(pages, position, n);
  newest_[slot] = kUnknown;
  for (int32_t p = position / kPageTokens; p <= (position + n - 1) / kPageTokens; ++p) {
    has_end_[static_cast<size_t>(pages[p])] = false;
  }
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
  written_.clear();
  for (int32_t i = 0; i < backlog.n; ++i) written_.push_back(backlog_row(slot) + i);
  add_rows(slot, pages, backlog.position, written_, {backlog.ids, static_cast<size_t>(backlog.n)});
  backlog = {};
}

void DraftContext::flush() {
  move(kept_);
  if (batch_.n() > 0) write_batch();
  move(newest_moves_);
}

void DraftContext::move(Moves& moves) {
  const auto n = static_cast<int32_t>(moves.from.size());
  if (n == 0) return;
  moves.from.insert(moves.from.end(), moves.to.begin(), moves.to.end());
  device_moves_.upload(moves.from);
  ops_.copy_rows(all_, device_moves_.device(), device_moves_.device() + n, n, all_);
  moves.clear();
}

void DraftContext::write_batch() {
  const int32_t n = batch_.n();
  bool in_order = true;
  for (int32_t r = 1; r < n; ++r) in_order = in_order && sources_[r] == sources_[r - 1] + 1;
  const Tensor rows = in_order ? all_.part(sources_[0], n) : compact_.narrow(n);
  if (!in_order) {
    device_sources_.upload(sources_);
    ops_.gather_rows(all_, device_sources_.device(), rows);
  }
  proposer_.write_context({rows, batch_});
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
