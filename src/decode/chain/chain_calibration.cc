#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "decode/chain/chain.h"

namespace ashlar {

// Measures what rows cost here. The cache is still empty, so its first pages are free to write on. Sizes take turns, so
// that a disturbance does not hit one of them alone. A row more than a power of two may cost a block of rows more:
// where products take sixteen rows at once, drafts that fill them up are nearly free and the next one is dear. The
// largest sizes of all are measured too: a line through two sizes next to each other says nothing of what lies beyond.
// Of a model so large that there is time for two sizes only, these are one row and sixteen.
void ChainDecoder::calibrate(int32_t max_slots) {
  constexpr int32_t kMaxRows = 64;
  constexpr int kRepeats = 8;
  constexpr int64_t kEnough = 200'000'000;      // ns for all repeats
  constexpr int64_t kEnoughPlain = 50'000'000;  // ns for passes of one row in a row
  constexpr int64_t kTooLong = 600'000'000;     // ns after which larger sizes are left to extrapolation
  const int32_t most = std::min({kMaxRows, batch_->max_rows(), max_positions(), kLogitRows});
  const int32_t max_sequences = std::min(max_slots, kv_->pages() / pages_of_block());
  const int32_t max_drafted = std::min(most, max_width() * max_sequences);
  struct Size {
    int32_t rows;
    int64_t verify, draft;
  };
  std::vector<Size> sizes;
  std::vector<int32_t> pages(kv_->pages());
  std::iota(pages.begin(), pages.end(), 0);
  const auto taken = [&](int32_t rows, bool draft) { return time_pass(pages.data(), rows, draft); };
  if (proposer_) {
    context_->write(0, pages.data(), 0, 0, most);  // so that scratch memory grows now, not in the midst of an answer
    context_->flush();
  }
  const int64_t begin = now_ns();
  for (const int32_t rows : {1, 16, 4, 8, 2, 32, kMaxRows, 9, 17, 33, most, max_drafted}) {
    if (rows < 1 || rows > most || (sizes.size() >= 2 && now_ns() - begin > kTooLong)) continue;
    if (std::any_of(sizes.begin(), sizes.end(), [rows](const Size& size) { return size.rows == rows; })) continue;
    taken(rows, false);  // the first of its size finds cold memory
    const bool drafts =
        proposer_ && rows <= max_drafted && rows >= 2 * sequences_of(rows);  // a last token drafts nothing
    sizes.push_back({rows, taken(rows, false), drafts ? taken(rows, true) : 0});
  }
  std::sort(sizes.begin(), sizes.end(), [](const Size& a, const Size& b) { return a.rows < b.rows; });
  for (int i = 0; i < kRepeats && now_ns() - begin < kEnough; ++i) {
    for (Size& size : sizes) {
      size.verify = std::min(size.verify, taken(size.rows, false));
      if (size.draft > 0) size.draft = std::min(size.draft, taken(size.rows, true));
    }
  }
  RowCost verify;
  RowCost draft;
  for (const Size& size : sizes) {
    verify.add(size.rows, static_cast<double>(size.verify));
    if (size.draft > 0) draft.add(size.rows, static_cast<double>(size.draft));
  }
  if (draft.empty() && proposer_) return;
  int64_t steady = sizes[0].verify;  // the best of as many as the others, once the time is steady
  const int64_t plain_begin = now_ns();
  for (int i = -kRepeats; i < kRepeats && now_ns() - plain_begin < kEnoughPlain; ++i) {
    const int64_t time = taken(1, false);
    if (i >= 0) steady = std::min(steady, time);
  }
  planner_->policy().set_costs(std::move(verify), std::move(draft),
                               static_cast<double>(steady) / static_cast<double>(sizes[0].verify));
}

// Nanoseconds of one pass of the target, or of the proposer for as many sequences as `rows` rows need, each on pages
// of its own. Where drafts come in turn, all sequences but the last are as wide as may be: fewer passes for more rows
// would make a table that says nothing of either.
int64_t ChainDecoder::time_pass(const int32_t* pages, int32_t rows, bool draft) {
  const int32_t sequences = draft ? sequences_of(rows) : 0;
  SlotTable slots(std::max(sequences, 1));
  chains_.clear();
  for (int32_t s = 0; s < sequences; ++s) {
    ChainSpan& span = chains_.emplace_back();
    span.slot = s;
    span.width = rows * (s + 1) / sequences - rows * s / sequences;
    if (proposer_->drafts_in_turn()) span.width = std::min(max_width(), rows - s * max_width());
    span.branches = max_branches();
    span.make_chain();
    span.most = span.draft_rows = span.width;
    const int32_t* const own = pages + s * pages_of_block();
    pages_->update(s, own, pages_of_block());
    span.pages = context_->table(s, own, 0, span.width);
  }
  const int64_t begin = now_ns();
  if (draft) {
    proposer_->propose(chains_, slots);
  } else {
    batch_->clear();
    batch_->begin_sequence(pages_->update(0, pages, std::min(kv_->pages(), pages_->max_pages())), 0,
                           {0, 0, std::min(rows, max_width()), {}});
    for (int32_t r = 0; r < rows; ++r) {
      batch_->add_row(0, r, rows);
      batch_->want_output();
    }
    model_.head_argmax(model_.forward(*batch_, *kv_, aux_request()), choices_.device());
    choices_.download(1);  // a pass is over when its result is there
  }
  return now_ns() - begin;
}

}  // namespace ashlar
