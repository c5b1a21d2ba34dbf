// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps a drafter's context in step with what the target has committed, as late as it can afford.
//
// Rows that a pass with proposed drafts or a prompt committed are written to the context at once. A sequence that
// decodes without these keeps its auxiliary hidden states in a backlog instead: they are written together when it
// drafts again or when a page is full, so that whole pages always hold the drafter's part too. Where no sequence
// expects to draft, rows may be skipped; the drafter then sees only what comes after the last page that lacks some.
//
// A proposer that reads_newest() finds the newest hidden state of each slot kept. One that reads_before() needs the
// hidden state before the first row of a step, too: that is the newest one, or the last one of each page, with which a
// sequence goes on that has found its first pages in the cache. So what stands in a page depends on the tokens up to
// the page's end alone, as K and V of the target do.
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
  /// `proposer` and `tables`, those of the target's pages, outlive this. `pages`: of the cache. `page_ends`: the plane
  /// of register_state().
  DraftContext(Ops& ops, Proposer& proposer, const PageTables& tables, const StepLimits& limits, int32_t pages,
               KvPlane page_ends = {});

  /// Bytes of a page for the last of its hidden states; 0: the proposer needs none.
  static int64_t page_end_bytes(const Ops& ops, bool reads_before, int64_t aux_width);

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

  /// The newest hidden state of each slot: [slots, aux_width].
  Tensor newest() const { return all_.part(newest_row(0), static_cast<int32_t>(newest_.size())); }

  /// Forgets the slot's last sequence.
  void admit(int32_t slot) {
    backlogs_[slot] = {};
    newest_[slot] = kUnknown;
  }

  /// Has `n` rows of aux_hidden(), from `row` or those of the path after it (row + path[0], row + path[1], ...),
  /// written with the next flush. They stand at `position`, `position` + 1, ... Those that lie outside of the window
  /// from now on are left out: only a prefix hit could have a use for them. `ids`: of the rows from `row` on; not
  /// needed by a proposer that does not look at them.
  void write(int32_t slot, const int32_t* pages, int32_t row, int32_t position, int32_t n,
             const int32_t* path = nullptr, const int32_t* ids = nullptr);
  /// Puts one row, of the token `id`, into the slot's backlog. The next flush copies it there, with those of all slots;
  /// until then the slot is neither written nor kept again: a step has one span of a sequence.
  void keep(int32_t slot, const int32_t* pages, int32_t row, int32_t position, int32_t id = 0);
  /// Leaves `n` positions out for good, with the slot's backlog.
  void skip(int32_t slot, const int32_t* pages, int32_t position, int32_t n);
  /// Has the slot's backlog written with the next flush.
  void write_backlog(int32_t slot, const int32_t* pages);
  /// Writes what was asked for, in one call to the proposer where it fits.
  void flush();

  /// The first position of the window of drafts that begin at `end`.
  int32_t window_begin(int32_t end) const;
  /// The first position of the window from which the drafter knows every one up to `position`.
  int32_t begin(const int32_t* pages, int32_t position) const;
  /// Whether what the proposer needs for its first draft is there: of the sequence in the slot, whose last token stands
  /// at `position`.
  bool can_draft(int32_t slot, int32_t position) const { return !reads_newest_ || newest_[slot] == position - 1; }
  /// The table of the proposer's planes for positions [begin, end) of the slot's sequence, whose page table is `pages`;
  /// in device memory. What it says stays true during the step; other entries mean nothing.
  const int32_t* table(int32_t slot, const int32_t* pages, int32_t begin, int32_t end);

 private:
  static constexpr int32_t kUnknown = -2;  // no position has this one before it

  struct Backlog {
    int32_t n = 0;
    int32_t position = 0;  // of its first row
    int32_t ids[kPageTokens] = {};
  };
  // Rows of all_ that go to other places there, all together.
  struct Moves {
    std::vector<int32_t> from, to;
    void add(int32_t row, int32_t place) {
      from.push_back(row);
      to.push_back(place);
    }
    void clear() {
      from.clear();
      to.clear();
    }
  };
  // Rows that go to the context: row i is made of sources[i], a row of all_, and ids[i].
  void add_rows(int32_t slot, const int32_t* pages, int32_t position, std::span<const int32_t> sources,
                std::span<const int32_t> ids);
  void write_batch();
  void move(Moves& moves);
  void know_newest(int32_t slot, int32_t row, int32_t position);
  int32_t row_of_newest(int32_t slot) const;
  bool find_newest(int32_t slot, const int32_t* pages, int32_t position);
  void leave_out(const int32_t* pages, int32_t position);
  void keep_page_end(const int32_t* pages, int32_t row, int32_t position);
  int32_t newest_row(int32_t slot) const {
    return max_rows_ + static_cast<int32_t>(backlogs_.size()) * kPageTokens + slot;
  }
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
  Moves kept_;                          // to backlogs, before anything is written
  DeviceArray<int32_t> device_moves_;   // from, then to
  std::vector<uint8_t> known_;          // per page: leading positions that were written since its first one was written
  bool forgotten_ = false;              // anything, ever
  std::vector<int32_t> written_, ids_;  // of one write(): as add_rows takes them
  // Where the proposer reads_newest(). Hidden states move to newest() when what is to be written has been gathered.
  bool reads_before_, reads_newest_;
  std::vector<int32_t> newest_;  // per slot: the position whose hidden state is kept, or kUnknown
  Moves newest_moves_;
  Tensor page_ends_;           // [pages, aux_width]
  std::vector<bool> has_end_;  // per page
  // Without a window: 0, null, empty.
  int32_t window_;
  std::unique_ptr<WindowPages> window_pages_;
  std::unique_ptr<PageTables> tables_;   // window page by page of the slot's sequence
  std::vector<int32_t> window_page_of_;  // the same, on the host
};

}  // namespace ashlar
