#pragma once
// Keeps a drafter's context in step with what the target has committed, as late as it can afford.
//
// Rows that a pass with proposed drafts or a prompt committed are written to the context at once. A sequence that
// decodes without these keeps its auxiliary hidden states in a backlog instead: they are written together when it
// drafts again or when a page is full, so that whole pages always hold the drafter's part too. Where no sequence
// expects to draft, rows may be skipped; the drafter then sees only what comes after the last page that lacks some.
//
// A proposer with a window has planes of fewer pages than the cache: window pages, which go to the pages that drafts
// looked at or rows were written into most recently. A page that loses its window page lacks all of its rows.

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/page_tables.h"
#include "cache/window_pages.h"
#include "decode/propose/proposer.h"
#include "device/device_array.h"
#include "model/row_batch.h"

namespace ashlar {

class DraftContext {
 public:
  /// `proposer` and `tables`, those of the target's pages, outlive this. `pages`: of the cache.
  DraftContext(Ops& ops, Proposer& proposer, const PageTables& tables, const StepLimits& limits, int32_t pages);

  /// Window pages that sequences in `slots` slots need if drafts look at the newest `window` tokens and reach `width`
  /// rows further; 0: no window, a window page for every page.
  static int64_t window_pages(int32_t window, int32_t width, int32_t slots);

  /// To be called before anything else of a step: forgets what a step that threw left to be written, and lets the
  /// window pages of the step before the last one go.
  void begin_step();
  void check_integrity() const {
    if (window_pages_) window_pages_->check_integrity();
  }

  /// Where the target's forward leaves its auxiliary hidden states: [max_rows, aux_width].
  Tensor aux_hidden() const { return all_.narrow(max_rows_); }

  /// Forgets the slot's last sequence.
  void admit(int32_t slot) { backlogs_[slot] = {}; }

  /// Has `n` rows of aux_hidden(), from `row` or those of the path after it (row + path[0], row + path[1], ...),
  /// written with the next flush. They stand at `position`, `position` + 1, ... Those that lie outside of the window
  /// from now on are left out: only a prefix hit could have a use for them.
  void write(int32_t slot, const int32_t* pages, int32_t row, int32_t position, int32_t n,
             const int32_t* path = nullptr);
  /// Puts one row into the slot's backlog.
  void keep(int32_t slot, const int32_t* pages, int32_t row, int32_t position);
  /// Leaves `n` positions out for good, with the slot's backlog.
  void skip(int32_t slot, const int32_t* pages, int32_t position, int32_t n);
  /// Has the slot's backlog written with the next flush.
  void write_backlog(int32_t slot, const int32_t* pages);
  /// Writes what was asked for, in one call to the proposer where it fits.
  void flush();

  /// The first position of the window from which the drafter knows every one up to `position`.
  int32_t begin(const int32_t* pages, int32_t position) const;
  /// The table of the proposer's planes for positions [begin, end) of the slot's sequence, whose page table is `pages`;
  /// in device memory. What it says stays true during the step; other entries mean nothing.
  const int32_t* table(int32_t slot, const int32_t* pages, int32_t begin, int32_t end);

 private:
  struct Backlog {
    int32_t n = 0;
    int32_t position = 0;  // of its first row
  };
  int32_t window_begin(int32_t end) const;
  void forget(const int32_t* pages, int32_t position, int32_t n);
  int32_t backlog_row(int32_t slot) const { return max_rows_ + slot * kPageTokens; }

  Ops& ops_;
  Proposer& proposer_;
  const PageTables& target_tables_;
  int32_t max_rows_;
  std::unique_ptr<Buffer> storage_;
  Tensor all_;      // [max_rows + slots * kPageTokens, aux_width]: the forward's, then the backlogs
  Tensor compact_;  // [max_rows, aux_width]: rows for one call
  RowBatch batch_;
  std::vector<int32_t> sources_;  // row of all_ for each row of batch_
  DeviceArray<int32_t> device_sources_;
  std::vector<Backlog> backlogs_;
  std::vector<uint8_t> known_;  // per page: leading positions that were written since its first one was written
  bool forgotten_ = false;      // anything, ever
  // Without a window: 0, null, empty.
  int32_t window_;
  std::unique_ptr<WindowPages> window_pages_;
  std::unique_ptr<PageTables> tables_;   // window page by page of the slot's sequence
  std::vector<int32_t> window_page_of_;  // the same, on the host
};

}  // namespace ashlar
