// SPDX-License-Identifier: Apache-2.0
// Random sequences of commits against a naive account of what the drafter was given.

#include "decode/propose/draft_context.h"

#include <gtest/gtest.h>

#include <map>
#include <new>
#include <numeric>
#include <random>
#include <set>

#include "device/device.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kSlots = 3;
constexpr int32_t kPages = 16;  // of each slot
constexpr int32_t kWidth = 8;   // of a verify span
constexpr int32_t kChunk = 44;  // most rows of a prompt in a step
constexpr int32_t kRows = kSlots * kChunk;
constexpr int32_t kColumns = 5;

/// Remembers the newest auxiliary hidden state that was written for each position of the proposer's planes.
class Recorder final : public Proposer {
 public:
  Recorder(int32_t window, bool reads_before, bool reads_newest)
      : window_(window), reads_before_(reads_before), reads_newest_(reads_newest) {}
  std::string name() const override { return "recorder"; }
  int32_t max_width() const override { return kWidth; }
  bool adapts_width() const override { return false; }
  std::span<const AuxLayer> aux_layers() const override { return {}; }
  int32_t aux_width() const override { return kColumns; }
  int32_t window() const override { return window_; }
  bool reads_before() const override { return reads_before_; }
  bool reads_newest() const override { return reads_newest_; }
  void register_state(KvLayout&) override {}
  void start(const StepLimits&, const KvMemory&) override {}
  void admit(int32_t, const Slot&, std::span<const int32_t>) override {}
  void propose(std::span<ChainSpan>, SlotTable&) override {}
  const float* draft_distribution(int32_t, int32_t) const override { return nullptr; }
  void write_context(const CommittedRows& committed) override {
    ++calls;
    if (fails) throw std::bad_alloc();
    const Rows rows = committed.batch.rows();
    for (int32_t r = 0; r < rows.n; ++r) {
      for (int32_t c = 0; c < kColumns; ++c)
        ASSERT_EQ(committed.aux_hidden.row(r)[c], committed.aux_hidden.row(r)[0] + c);
      seen[place(rows.page_tables[rows.tables[r]], rows.positions[r])] = committed.aux_hidden.row(r)[0];
    }
  }
  static int32_t place(const int32_t* table, int32_t position) {
    return table[position / kPageTokens] * kPageTokens + position % kPageTokens;
  }
  std::map<int32_t, float> seen;
  int32_t calls = 0;
  bool fails = false;

 private:
  int32_t window_;
  bool reads_before_, reads_newest_;
};

struct Reader {
  int32_t window;
  bool reads_before;
  bool reads_newest = reads_before;
};

struct Sequence {
  std::vector<int32_t> pages;
  int32_t length = 0;
  std::vector<float> value;   // auxiliary hidden state of each position
  std::vector<bool> skipped;  // of each position
  std::vector<bool> lost;     // positions whose hidden state is not kept
  bool saw_row = false;       // a row of it was computed in its slot
  bool saw_all = false;       // the last step drafted with the whole window

  void grow(float state) {
    value.push_back(state);
    skipped.push_back(false);
    lost.push_back(false);
    ++length;
  }
  /// From here on nothing was skipped.
  int32_t whole() const {
    int32_t last = length - 1;
    while (last >= 0 && !skipped[last]) --last;
    return last < 0 ? 0 : std::min((last / kPageTokens + 1) * kPageTokens, length);
  }
};

class DraftContextTest : public ::testing::TestWithParam<Reader> {
 protected:
  DraftContextTest()
      : ops_(make_device("ref", {})),
        recorder_(window(), reads_before(), reads_newest()),
        tables_(*ops_, kSlots, kPages),
        page_ends_(ops_->allocate(sizeof(float) * kSlots * kPages * kColumns)),
        context_(*ops_, recorder_, tables_, {kRows, kSlots, kSlots}, kSlots * kPages,
                 {page_ends_->data(), sizeof(float) * kColumns}) {
    for (int32_t s = 0; s < kSlots; ++s) {
      std::vector<int32_t> pages(kPages);
      std::iota(pages.begin(), pages.end(), s * kPages);
      take_pages(s, pages);
    }
  }
  static int32_t window() { return GetParam().window; }
  static bool reads_before() { return GetParam().reads_before; }
  static bool reads_newest() { return GetParam().reads_newest; }
  void take_pages(int32_t s, const std::vector<int32_t>& pages) {
    sequences_[s].pages = pages;
    tables_.admit(s);
    tables_.update(s, sequences_[s].pages.data(), kPages);
  }
  /// Another sequence in the slot, which has found `keep` full pages of the last one again.
  void restart(int32_t s, int32_t keep) {
    Sequence& sequence = sequences_[s];
    std::shuffle(sequence.pages.begin() + keep, sequence.pages.end(), random_);
    sequence.length = keep * kPageTokens;
    sequence.value.resize(sequence.length);
    sequence.skipped.resize(sequence.length);
    sequence.lost.resize(sequence.length);
    sequence.saw_all = sequence.saw_row = false;
    take_pages(s, sequence.pages);
    context_.admit(s);
  }
  /// Of rows from `position` on, the first one may lack the hidden state before it.
  static void lose_first(Sequence& sequence, int32_t position) {
    if (!reads_before() || position == 0 || !sequence.lost[position - 1]) return;
    for (int32_t i = position / kPageTokens * kPageTokens; i <= position; ++i) sequence.skipped[i] = true;
  }
  /// The forward leaves the auxiliary hidden states of `n` new positions of a sequence in rows from `row`.
  void forward(Sequence& sequence, int32_t row, int32_t n) {
    for (int32_t r = 0; r < n; ++r) {
      next_ += 100;
      for (int32_t c = 0; c < kColumns; ++c) context_.aux_hidden().row(row + r)[c] = next_ + static_cast<float>(c);
      sequence.grow(next_);
      sequence.saw_row = true;
    }
  }
  int32_t window_begin(int32_t end) const {
    return window() == 0 ? 0 : std::max(0, end - window()) / kPageTokens * kPageTokens;
  }
  /// A draft pass over a sequence whose context is complete: all that it looks at is right, and its block may be
  /// written.
  void draft(int32_t s, const int32_t* table, int32_t begin) {
    Sequence& sequence = sequences_[s];
    const int32_t expected = std::max(window_begin(sequence.length), sequence.whole());
    ASSERT_GE(begin, expected);
    // What a step looked at outlives the next one.
    if (window() == 0 || sequence.saw_all) {
      ASSERT_EQ(begin, expected);
    }
    sequence.saw_all = begin == expected;
    shortened_ += begin > expected ? 1 : 0;
    const int32_t before = reads_before() ? 1 : 0;
    for (int32_t i = std::max(begin, before); i < sequence.length; ++i) {
      const auto found = recorder_.seen.find(Recorder::place(table, i));
      ASSERT_NE(found, recorder_.seen.end()) << i;
      ASSERT_EQ(found->second, sequence.value[i - before]) << i;
    }
    if (reads_newest() && sequence.saw_row) {
      ASSERT_EQ(context_.newest().row(s)[0], sequence.value.back());
    }
    for (int32_t i = sequence.length; i < sequence.length + kWidth; ++i) {
      recorder_.seen[Recorder::place(table, i)] = -1;
    }
  }
  void commit_wide(int32_t s, int32_t row, int32_t n) {
    Sequence& sequence = sequences_[s];
    const int32_t position = sequence.length;
    forward(sequence, row, n);
    context_.write_backlog(s, sequence.pages.data());
    context_.write(s, sequence.pages.data(), row, position, n);
    lose_first(sequence, position);
    for (int32_t i = position; i < window_begin(sequence.length); ++i) sequence.skipped[i] = true;
  }
  void commit_narrow(int32_t s, int32_t row, bool hopeful) {
    Sequence& sequence = sequences_[s];
    const int32_t position = sequence.length;
    forward(sequence, row, 1);
    if (hopeful) {
      lose_first(sequence, position);
      return context_.keep(s, sequence.pages.data(), row, position);
    }
    sequence.lost.back() = true;
    context_.skip(s, sequence.pages.data(), position, 1);
    for (int32_t i = position / kPageTokens * kPageTokens; i < sequence.length; ++i) sequence.skipped[i] = true;
  }

  std::mt19937 random_{7};
  std::unique_ptr<Ops> ops_;
  Recorder recorder_;
  PageTables tables_;
  std::unique_ptr<Buffer> page_ends_;
  DraftContext context_;
  Sequence sequences_[kSlots];
  float next_ = 0;
  int32_t shortened_ = 0;  // draft passes that saw less than the window for want of window pages
};
INSTANTIATE_TEST_SUITE_P(Readers, DraftContextTest,
                         ::testing::Values(Reader{0, false}, Reader{kWidth, false}, Reader{20, false},
                                           Reader{40, false}, Reader{4 * kPages * kPageTokens, false}, Reader{0, true},
                                           Reader{0, false, true}, Reader{20, false, true}, Reader{20, true},
                                           Reader{4 * kPages * kPageTokens, true}),
                         [](const auto& info) {
                           const std::string own = info.param.reads_newest ? "newest" : "own";
                           return (info.param.reads_before ? "before" : own) + "_" + std::to_string(info.param.window);
                         });

TEST_P(DraftContextTest, KnowsWhatItWasToldAndWhatItWasNot) {
  enum class Kind { kPrompt, kWide, kNarrow };
  for (int step = 0; step < 6000; ++step) {
    context_.begin_step();
    Kind kinds[kSlots];
    const int32_t* tables[kSlots] = {};
    int32_t begins[kSlots] = {};
    bool can_draft[kSlots] = {};
    for (int32_t s = 0; s < kSlots; ++s) {
      Sequence& sequence = sequences_[s];
      constexpr int32_t kLongest = kPages * kPageTokens - kChunk - kWidth;
      if (sequence.length > kLongest || random_() % 100 == 0) {
        const int32_t full = std::min(sequence.length, kLongest) / kPageTokens;
        restart(s, static_cast<int32_t>(random_() % (full + 1U)));
      }
      kinds[s] = random_() % 8 == 0 ? Kind::kPrompt : random_() % 3 == 0 ? Kind::kNarrow : Kind::kWide;
      if (kinds[s] != Kind::kWide) continue;
      can_draft[s] = context_.can_draft(s, sequence.length);
      if (reads_newest() && sequence.length > 0 && !sequence.lost.back() && sequence.saw_row) {
        ASSERT_TRUE(can_draft[s]);
      }
      if (!can_draft[s]) continue;
      const int32_t* pages = sequence.pages.data();
      context_.write_backlog(s, pages);
      begins[s] = context_.begin(pages, sequence.length);
      tables[s] = context_.table(s, pages, begins[s], sequence.length + kWidth);
    }
    context_.flush();
    for (int32_t s = 0; s < kSlots; ++s) {
      if (kinds[s] == Kind::kWide && can_draft[s]) {
        draft(s, tables[s], begins[s]);
      } else {
        sequences_[s].saw_all = false;
      }
      if (HasFatalFailure()) return;
    }
    for (int32_t s = 0; s < kSlots; ++s) {
      if (kinds[s] == Kind::kNarrow) {
        commit_narrow(s, s * kChunk, step / 300 % 3 != 1);
      } else {
        commit_wide(s, s * kChunk, static_cast<int32_t>(1 + random_() % (kinds[s] == Kind::kPrompt ? kChunk : kWidth)));
      }
    }
    context_.flush();
  }
  // Few pages at a time are looked at through a small window: those of ended sequences were lost now and then.
  const bool window_pages_are_few =
      DraftContext::window_pages(window(), kWidth, kSlots) < kSlots * kPages && window() > 0;
  EXPECT_EQ(shortened_ > 0, window_pages_are_few) << shortened_;
}

TEST_P(DraftContextTest, NarrowPassesAreWrittenPageByPage) {
  for (int32_t i = 0; i < 4 * kPageTokens; ++i) {
    context_.begin_step();
    commit_narrow(0, 0, true);
    context_.flush();
  }
  EXPECT_EQ(recorder_.calls, 4);
  const int32_t* pages = sequences_[0].pages.data();
  draft(0, context_.table(0, pages, 0, sequences_[0].length + kWidth), context_.begin(pages, sequences_[0].length));
}

// A prompt's rows outside of the window are left out; what an earlier sequence left in their pages' window pages is not
// theirs.
TEST_P(DraftContextTest, WhatAPromptLeavesOutIsLookedPast) {
  Sequence& sequence = sequences_[0];
  const std::vector<int32_t> pages = sequence.pages;
  for (int i = 0; i < 2 * kPageTokens / kWidth; ++i) {
    context_.begin_step();
    commit_wide(0, 0, kWidth);
    context_.flush();
  }
  restart(0, 0);
  take_pages(0, pages);
  context_.begin_step();
  commit_wide(0, 0, kChunk);
  context_.flush();
  restart(0, 2);
  take_pages(0, pages);
  context_.begin_step();
  const int32_t begin = context_.begin(pages.data(), sequence.length);
  draft(0, context_.table(0, pages.data(), begin, sequence.length + kWidth), begin);
}

// Its rows belong to sequences that the failure ended, whose page tables go with them.
TEST_P(DraftContextTest, AStepThatThrewLeavesNothingToBeWritten) {
  context_.begin_step();
  commit_wide(0, 0, kWidth);
  recorder_.fails = true;
  EXPECT_THROW(context_.flush(), std::bad_alloc);
  recorder_.fails = false;
  const int32_t calls = recorder_.calls;
  context_.begin_step();
  context_.flush();
  EXPECT_EQ(recorder_.calls, calls);
}

TEST(DraftContextWindowPages, DependOnWindowWidthAndSlotsOnly) {
  EXPECT_EQ(DraftContext::window_pages(0, 16, 8), 0);
  // 16 positions from anywhere and a block of 1 lie in 2 pages, or 3 with the window's first page taken whole.
  EXPECT_EQ(DraftContext::window_pages(16, 1, 1), 2 * 2);
  EXPECT_EQ(DraftContext::window_pages(16, 2, 1), 2 * 3);
  EXPECT_EQ(DraftContext::window_pages(64, 16, 4), 4 * DraftContext::window_pages(64, 16, 1));
  EXPECT_LT(DraftContext::window_pages(1 << 24, 64, 4096), int64_t{1} << 34);
  // No position needs more: the naive count.
  for (const int32_t window : {2, 15, 16, 17, 64, 100}) {
    for (const int32_t width : {1, 2, 8, 16, 17}) {
      int32_t most = 0;
      for (int32_t start = window; start < window + 2 * kPageTokens; ++start) {
        const int32_t first = (start - window) / kPageTokens;
        most = std::max(most, (start + width - 1) / kPageTokens - first + 1);
      }
      EXPECT_EQ(DraftContext::window_pages(window, width, 1), 2 * most) << window << " and " << width;
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
