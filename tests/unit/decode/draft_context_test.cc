// Random sequences of commits against a naive account of what the drafter was told.

#include "decode/draft_context.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>

#include "device/device.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kRows = 24;
constexpr int32_t kSlots = 3;
constexpr int32_t kPages = 12;  // of each slot
constexpr int32_t kWidth = 5;

/// Remembers the newest tap value that was absorbed for each (page, offset).
class Recorder final : public Proposer {
 public:
  std::string name() const override { return "recorder"; }
  int32_t max_width() const override { return 8; }
  bool adapts_width() const override { return false; }
  std::span<const Tap> taps() const override { return {}; }
  int32_t tap_width() const override { return kWidth; }
  void register_planes(KvLayout&) override {}
  void start(const StepLimits&, const KvMemory&) override {}
  void admit(int32_t, const Slot&) override {}
  void propose(std::span<ChainSpan>, SlotTable&) override {}
  const float* draft_distribution(int32_t, int32_t) const override { return nullptr; }
  void absorb(const CommittedRows& committed) override {
    ++calls;
    for (int32_t r = 0; r < committed.rows.n; ++r) {
      const int32_t position = committed.rows.positions[r];
      const int32_t page = committed.rows.page_tables[committed.rows.tables[r]][position / kPageTokens];
      for (int32_t c = 0; c < kWidth; ++c) ASSERT_EQ(committed.taps.row(r)[c], committed.taps.row(r)[0] + c);
      seen[page * kPageTokens + position % kPageTokens] = committed.taps.row(r)[0];
    }
  }
  std::map<int32_t, float> seen;
  int32_t calls = 0;
};

struct Sequence {
  std::vector<int32_t> pages;
  int32_t length = 0;
  std::vector<float> value;   // tap of each position
  std::vector<bool> skipped;  // of each position
};

class DraftContextTest : public ::testing::Test {
 protected:
  DraftContextTest()
      : ops_(make_device("ref", {})), context_(*ops_, recorder_, {kRows, kSlots, kSlots}, kSlots * kPages) {
    for (int32_t s = 0; s < kSlots; ++s) restart(s);
  }
  void restart(int32_t s) {
    sequences_[s] = {};
    sequences_[s].pages.resize(kPages);
    std::iota(sequences_[s].pages.begin(), sequences_[s].pages.end(), s * kPages);
    std::shuffle(sequences_[s].pages.begin(), sequences_[s].pages.end(), random_);
    context_.admit(s);
  }
  /// The forward leaves the taps of `n` new positions of a sequence in rows from `row`.
  void forward(Sequence& sequence, int32_t row, int32_t n) {
    for (int32_t r = 0; r < n; ++r) {
      next_ += 100;
      for (int32_t c = 0; c < kWidth; ++c) context_.taps().row(row + r)[c] = next_ + static_cast<float>(c);
      sequence.value.push_back(next_);
      sequence.skipped.push_back(false);
    }
    sequence.length += n;
  }
  /// Every position from begin() on, and every full page without a skip, is in the drafter with the right value.
  void check(const Sequence& sequence, bool caught_up) {
    const int32_t begin = context_.begin(sequence.pages.data(), sequence.length);
    int32_t last_skip = -1;
    for (int32_t i = 0; i < sequence.length; ++i) {
      if (sequence.skipped[i]) last_skip = i;
    }
    const int32_t whole = last_skip < 0 ? 0 : std::min((last_skip / kPageTokens + 1) * kPageTokens, sequence.length);
    if (caught_up) {
      ASSERT_EQ(begin, whole);
    }
    for (int32_t i = 0; i < sequence.length; ++i) {
      const int32_t page = i / kPageTokens;
      const bool full = (page + 1) * kPageTokens <= sequence.length;
      if (i < whole || (!full && !caught_up)) continue;
      const auto found = recorder_.seen.find(sequence.pages[page] * kPageTokens + i % kPageTokens);
      ASSERT_NE(found, recorder_.seen.end()) << i;
      ASSERT_EQ(found->second, sequence.value[i]) << i;
    }
  }

  std::mt19937 random_{7};
  std::unique_ptr<Ops> ops_;
  Recorder recorder_;
  DraftContext context_;
  Sequence sequences_[kSlots];
  float next_ = 0;
};

TEST_F(DraftContextTest, KnowsWhatItWasToldAndWhatItWasNot) {
  for (int step = 0; step < 4000; ++step) {
    int32_t row = 0;
    bool wide[kSlots] = {};
    for (int32_t s = 0; s < kSlots; ++s) {
      Sequence& sequence = sequences_[s];
      wide[s] = random_() % 4 == 0;
      if (sequence.length + 8 > kPages * kPageTokens || random_() % 200 == 0) restart(s);
      if (!wide[s]) continue;
      context_.catch_up(s, sequence.pages.data());
    }
    context_.flush();
    for (int32_t s = 0; s < kSlots; ++s) {
      if (wide[s]) check(sequences_[s], true);
    }
    for (int32_t s = 0; s < kSlots; ++s) {
      Sequence& sequence = sequences_[s];
      const auto n = static_cast<int32_t>(wide[s] ? 1 + random_() % 8 : 1);
      const int32_t position = sequence.length;
      forward(sequence, row, n);
      if (wide[s]) {
        context_.absorb(sequence.pages.data(), row, position, n);
      } else if (step / 300 % 3 == 1) {
        context_.skip(s, sequence.pages.data(), position, n);
        for (int32_t i = position / kPageTokens * kPageTokens; i < sequence.length; ++i) sequence.skipped[i] = true;
      } else {
        context_.keep(s, sequence.pages.data(), row, position);
      }
      row += 8;
    }
    context_.flush();
    for (const Sequence& sequence : sequences_) check(sequence, false);
  }
}

TEST_F(DraftContextTest, NarrowPassesAreAbsorbedPageByPage) {
  Sequence& sequence = sequences_[0];
  for (int32_t i = 0; i < 4 * kPageTokens; ++i) {
    forward(sequence, 0, 1);
    context_.keep(0, sequence.pages.data(), 0, i);
    context_.flush();
  }
  EXPECT_EQ(recorder_.calls, 4);
  check(sequence, true);
}

}  // namespace
}  // namespace ashlar::testing
