// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/clock.h"
#include "decode/chain/chain.h"

namespace ashlar {

namespace {

constexpr int32_t kMaxRows = 64;
constexpr int32_t kMaxFlatRows = 1024;  // where 64 take less than kFlat times one row
constexpr double kFlat = 2.0;
constexpr int32_t kWideRows = 16;      // of passes over a context
constexpr int32_t kMaxContext = 2048;  // tokens that attention is measured over
constexpr int32_t kMinContext = 256;   // with fewer, the difference is noise
constexpr int64_t kContextBytes = int64_t{1} << 28;
constexpr int kRepeats = 8;
constexpr int64_t kEnough = 200'000'000;      // ns for all repeats
constexpr int64_t kEnoughPlain = 50'000'000;  // ns for passes of one row in a row
constexpr int64_t kTooLong = 600'000'000;     // ns after which larger sizes are left to extrapolation

struct Size {
  int32_t rows, context;
  int64_t verify, draft;  // ns; draft: 0 where nothing drafts so few rows
};

// What attention takes for each key that rows see, from two passes over a context: of that what rows take without one.
void add_context(PassCost& cost, const Size& few, const Size& many, int64_t Size::*time, const KeysSeen& seen) {
  const auto beyond = [&](const Size& size) {
    return (static_cast<double>(size.*time) - cost.rows.at(size.rows)) / seen.of(size.context);
  };
  if (many.rows > few.rows) cost.row_key = std::max(0.0, (beyond(many) - beyond(few)) / (many.rows - few.rows));
  cost.key = std::max(0.0, beyond(few) - few.rows * cost.row_key);
}

const Size* find(std::span<const Size> sizes, int32_t rows) {
  const auto found = std::ranges::find(sizes, rows, &Size::rows);
  return found == sizes.end() ? nullptr : &*found;
}

}  // namespace

KeysSeen ChainDecoder::target_keys() const {
  const StackConfig& stack = model_.config().stack;
  std::vector<int32_t> windows;
  for (int32_t i = 0; i < stack.n_layers; ++i) {
    if (stack.is_attention(i)) windows.push_back(stack.layers[static_cast<size_t>(i)].window);
  }
  return KeysSeen(std::move(windows));
}

// Tokens of a context that there is room for; 0: too few to say anything.
int32_t ChainDecoder::calibration_context(int32_t rows) const {
  int64_t most = std::min<int64_t>(kv_->pages(), pages_->max_pages() - pages_of_block()) * kPageTokens;
  most = std::min<int64_t>({most, max_positions(), kMaxContext}) - rows;
  most = std::min(most, kContextBytes / std::max<int64_t>(1, kv_->bytes_of_page()) * kPageTokens);
  return most < kMinContext ? 0 : static_cast<int32_t>(most / kPageTokens) * kPageTokens;
}

// Measures what rows cost here, and what attention adds. The cache is still empty, so its first pages are free to write
// on. Sizes take turns, so that a disturbance does not hit one of them alone. A row more than a power of two may cost a
// block of rows more: where products take sixteen rows at once, drafts that fill them up are nearly free and the next
// one is dear. The largest sizes of all are measured too: a line through two sizes next to each other says nothing of
// what lies beyond. Where many rows take little more than one, as on a device with far more arithmetic than bandwidth,
// what lies beyond begins to rise somewhere: up to kMaxFlatRows are measured there. Of a model so large that there is
// time for two sizes only, these are one row and sixteen.
void ChainDecoder::calibrate(int32_t max_slots) {
  const int32_t most = std::min({kMaxRows, batch_->max_rows(), max_positions(), kLogitRows});
  const int32_t max_sequences = std::min(max_slots, kv_->pages() / pages_of_block());
  const int32_t max_drafted = std::min(most, max_width() * max_sequences);
  const int32_t max_verified = std::min(
      {kMaxFlatRows, batch_->max_rows(), max_positions(), max_width() * max_slots, kv_->pages() * kPageTokens});
  const int32_t wide = std::min({kWideRows, most, max_width()});
  const int32_t context = wide < 2 ? 0 : calibration_context(wide);
  if (context > 0) kv_->clear((context + wide) / kPageTokens + 1);
  std::vector<Size> sizes;
  std::vector<int32_t> pages(kv_->pages());
  std::iota(pages.begin(), pages.end(), 0);
  const auto taken = [&](int32_t rows, int32_t after, bool draft) {
    return time_pass(pages.data(), rows, after, draft);
  };
  if (proposer_) {
    context_->write(0, pages.data(), 0, 0, most);  // so that scratch memory grows now, not in the midst of an answer
    context_->flush();
  }
  const int64_t begin = now_ns();
  const auto measure = [&](int32_t rows, int32_t after) {
    taken(rows, after, false);  // the first of its size finds cold memory
    const int32_t sequences = sequences_of(rows);
    const bool drafts =
        proposer_ && sequences <= max_sequences && rows >= 2 * sequences;  // a last token drafts nothing
    if (drafts && rows > kMaxRows) taken(rows, after, true);               // scratch memory grows
    sizes.push_back({rows, after, taken(rows, after, false), drafts ? taken(rows, after, true) : 0});
  };
  for (const int32_t rows : {1, 16, 4, 8, 2, 32, kMaxRows, 9, 17, 33, most, max_drafted}) {
    if (rows < 1 || rows > most || (sizes.size() >= 2 && now_ns() - begin > kTooLong)) continue;
    if (find(sizes, rows) != nullptr) continue;
    measure(rows, 0);
  }
  const Size* const many = find(sizes, kMaxRows);
  if (many != nullptr && static_cast<double>(many->verify) < kFlat * static_cast<double>(find(sizes, 1)->verify)) {
    for (int32_t rows = 2 * kMaxRows; rows <= max_verified && now_ns() - begin <= kTooLong; rows *= 2) measure(rows, 0);
  }
  std::sort(sizes.begin(), sizes.end(), [](const Size& a, const Size& b) { return a.rows < b.rows; });
  const size_t without = sizes.size();
  const bool over_context = context > 0 && now_ns() - begin <= kTooLong;
  if (over_context) {
    measure(2, context);
    measure(wide, context);
  }
  for (int i = 0; i < kRepeats && now_ns() - begin < kEnough; ++i) {
    for (Size& size : sizes) {
      size.verify = std::min(size.verify, taken(size.rows, size.context, false));
      if (size.draft > 0) size.draft = std::min(size.draft, taken(size.rows, size.context, true));
    }
  }
  PassCost verify;
  PassCost draft;
  for (const Size& size : std::span(sizes).first(without)) {
    verify.rows.add(size.rows, static_cast<double>(size.verify));
    if (size.draft > 0) draft.rows.add(size.rows, static_cast<double>(size.draft));
  }
  if (draft.empty() && proposer_) return;
  if (over_context) {
    add_context(verify, sizes[without], sizes[without + 1], &Size::verify, keys_seen_);
    if (proposer_) add_context(draft, sizes[without], sizes[without + 1], &Size::draft, proposer_->keys_seen());
  }
  int64_t steady = sizes[0].verify;  // the best of as many as the others, once the time is steady
  const int64_t plain_begin = now_ns();
  for (int i = -kRepeats; i < kRepeats && now_ns() - plain_begin < kEnoughPlain; ++i) {
    const int64_t time = taken(1, 0, false);
    if (i >= 0) steady = std::min(steady, time);
  }
  planner_->policy().costs().set(std::move(verify), std::move(draft),
                                 static_cast<double>(steady) / static_cast<double>(sizes[0].verify));
}

// Nanoseconds of one pass of the target after `context` tokens of one sequence, or of the proposer for as many
// sequences as `rows` rows need, each on pages of its own. Where drafts come in turn, all sequences but the last are as
// wide as may be: fewer passes for more rows would make a table that says nothing of either.
int64_t ChainDecoder::time_pass(const int32_t* pages, int32_t rows, int32_t context, bool draft) {
  const int32_t own_pages = context / kPageTokens + pages_of_block();
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
    const int32_t* const own = pages + s * own_pages;
    pages_->update(s, own, std::min(own_pages, kv_->pages()));
    span.start = context;
    span.context_begin = context_->window_begin(context);
    span.pages = context_->table(s, own, span.context_begin, context + span.width);
  }
  const int64_t begin = now_ns();
  if (draft) {
    proposer_->propose(chains_, slots);
  } else {
    batch_->clear();
    batch_->begin_sequence(pages_->update(0, pages, std::min(kv_->pages(), pages_->max_pages())), 0,
                           {0, 0, std::min(rows, max_width()), {}});
    for (int32_t r = 0; r < rows; ++r) {
      batch_->add_row(0, context + r, context + rows);
      batch_->want_output();
    }
    const Tensor hidden = model_.forward(*batch_, *kv_, aux_request());
    for (int32_t first = 0; first < rows; first += kChoiceRows) {
      model_.head_argmax(hidden.part(first, std::min(kChoiceRows, rows - first)), choices_.device());
    }
    choices_.download(1);  // a pass is over when its result is there
  }
  return now_ns() - begin;
}

}  // namespace ashlar
