// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decoder without a model, for testing the scheduler: its "KV cache" remembers which token was written where, and the
// next token is a hash of everything the sequence can read back through its page table. Any mistake with pages,
// positions, slots or stale results therefore changes the answer.

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "decode/decoder.h"

namespace ashlar::testing {

inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

inline constexpr int32_t kFakeVocab = 1000;

/// The token that follows `tokens`.
inline int32_t fake_next(const std::vector<int32_t>& tokens) {
  uint64_t state = 1;
  for (const int32_t token : tokens) state = mix(state ^ static_cast<uint64_t>(token));
  return static_cast<int32_t>(state % kFakeVocab);
}

class FakeDecoder final : public Decoder {
 public:
  /// `vocab`: of prompts; answers have tokens below kFakeVocab.
  FakeDecoder(int32_t width, int32_t longest, int32_t vocab = kFakeVocab)
      : width_(width), longest_(longest), vocab_(vocab) {}
  /// Prefill yields no token, and the first decode span may share its last step.
  FakeDecoder& join() {
    joins_ = true;
    return *this;
  }

  /// Decode spans may be given fewer rows than they may have, and use at most `rows`.
  FakeDecoder& use_rows(int32_t rows) {
    used_rows_ = rows;
    return *this;
  }

  std::string name() const override { return "fake"; }
  int32_t max_width() const override { return width_; }
  StepShape shape(int32_t width) const override {
    StepShape shape;
    shape.rows = shape.tokens = width > 0 ? width : width_;
    shape.min_rows = used_rows_ > 0 ? 1 : 0;
    shape.lookahead = shape.rows - 1;
    if (!joins_) return shape;
    shape.prefill_samples = false;
    shape.joins_prefill = true;
    shape.lookahead = shape.rows;
    return shape;
  }
  int32_t vocab() const override { return vocab_; }
  int32_t max_positions() const override { return longest_; }
  void register_state(KvLayout& layout, const StepLimits&) override {
    plane_ = layout.add_paged("fake", kPageTokens * sizeof(int32_t));
  }
  void start(const StepLimits& limits, const KvMemory& kv) override {
    limits_ = limits;
    kv_ = &kv;
  }
  void admit(int32_t, Slot& slot, std::span<const int32_t>) override {
    const std::lock_guard lock(mutex_);
    if (admitted_ < seeds_.size()) seeds_[admitted_++] = slot.params.seed;
  }
  /// Of the first sequences, in the order of their admission.
  std::vector<uint64_t> seeds() const {
    const std::lock_guard lock(mutex_);
    return {seeds_.begin(), seeds_.begin() + static_cast<int64_t>(admitted_)};
  }
  std::string check(const MethodChoice& choice) const override {
    if (fail_check_at_ >= 0 && fail_check_at_-- == 0) throw std::bad_alloc();
    return Decoder::check(choice);
  }
  /// The request of number `n` from now on is not even submitted, for want of memory.
  void fail_at_request(int32_t n) { fail_check_at_ = n; }

  void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) override {
    if (fail_at_ >= 0 && fail_at_-- == 0) throw std::bad_alloc();
    if (lose_at_ >= 0 && lose_at_-- == 0) throw DeviceLost("fake", "the device is gone");
    ++begun_;
    for (int32_t allowed = allowed_; launches_ >= allowed; allowed = allowed_) allowed_.wait(allowed);
    if (delay_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us_));
    int32_t rows = 0;
    int32_t prompt_rows = 0;
    std::set<int32_t> seen, prefilled;
    for (size_t i = 0; i < plan.spans.size(); ++i) {
      const Span& span = plan.spans[i];
      ASHLAR_CHECK(seen.insert(span.slot).second || (span.prompt == nullptr && prefilled.erase(span.slot) == 1));
      if (joins_ && span.prompt != nullptr) prefilled.insert(span.slot);
      rows += span.n_rows;
      prompt_rows += span.prompt != nullptr ? span.n_rows : 0;
      result.spans[i] = {};
      if (slots[span.slot].done) continue;
      if (span.prompt != nullptr) {
        prefill(span, slots[span.slot], result.spans[i]);
      } else if (joins_) {
        extend(span, slots[span.slot], result.spans[i]);
      } else {
        decode(span, slots[span.slot], result.spans[i]);
      }
    }
    ASHLAR_CHECK_LE(static_cast<int32_t>(plan.spans.size()), limits_.max_spans);
    ASHLAR_CHECK_EQ(rows, plan.n_rows);
    ASHLAR_CHECK_LE(rows, limits_.max_rows);
    std::atomic<int32_t>& most = prompt_rows < rows ? max_with_others_ : max_alone_;
    most = std::max<int32_t>(most, prompt_rows);
    result.times = {};
    result.times.verify_ns = step_ns_ + rows * row_ns_;
    if (launches_ < static_cast<int32_t>(spans_.size())) spans_[launches_] = static_cast<int32_t>(plan.spans.size());
    ++launches_;
  }

  int64_t last_progress_ns() const override { return progress_ns_; }
  void check_integrity() const override { ASHLAR_CHECK(!broken_); }
  /// check_integrity() fails from now on.
  void break_integrity() { broken_ = true; }
  /// A launch has got on, it says, at this time.
  void show_progress(int64_t ns) { progress_ns_ = ns; }

  void fail_launch(int32_t n) { fail_at_ = n; }
  /// The device is lost in launch `n` from now on; later ones would run.
  void lose_device(int32_t n) { lose_at_ = n; }
  void delay(int32_t microseconds) { delay_us_ = microseconds; }
  int32_t launches() const { return launches_; }
  /// Those that wait included.
  int32_t begun() const { return begun_; }
  /// Spans of the launch of this number, if it is one of the first.
  int32_t spans(int32_t launch) const { return spans_[launch]; }
  /// Launches wait once there have been this many.
  void allow(int32_t launches) {
    allowed_ = launches;
    allowed_.notify_all();
  }
  /// Steps say that their rows took so long.
  void claim(int64_t ns_per_row, int64_t ns_per_step = 0) {
    row_ns_ = ns_per_row;
    step_ns_ = ns_per_step;
  }
  /// Most prompt rows of a step in which others decoded, and of one in which none did.
  int32_t max_with_others() const { return max_with_others_; }
  int32_t max_alone() const { return max_alone_; }

 private:
  int32_t& cell(const Span& span, int32_t position) const {
    const int32_t page = span.pages[position / kPageTokens];
    ASHLAR_CHECK(page >= 0 && page < kv_->pages());
    auto* tokens = reinterpret_cast<int32_t*>(kv_->plane(plane_).base + page * kv_->plane(plane_).page_stride);
    return tokens[position % kPageTokens];
  }

  std::vector<int32_t> read(const Span& span, int32_t length) const {
    std::vector<int32_t> tokens;
    for (int32_t p = 0; p < length; ++p) tokens.push_back(cell(span, p));
    return tokens;
  }

  static bool waits(const Slot& slot) { return slot.constraint != nullptr && !slot.constraint->prepare(); }

  void finish(Slot& slot, SpanResult& span, int32_t token, int32_t position) {
    span.tokens[span.n_tokens++] = token;
    if (slot.constraint != nullptr) slot.constraint->advance(token);
    slot.last_token = token;
    for (const int32_t stop : slot.stop_ids) {
      if (token == stop) span.end = SpanEnd::kStop;
    }
    if (span.end == SpanEnd::kRunning && position + 1 >= slot.limit) span.end = SpanEnd::kLength;
    slot.done = span.end != SpanEnd::kRunning;
  }

  void prefill(const Span& span, Slot& slot, SpanResult& result) {
    ASHLAR_CHECK_EQ(slot.length, span.start);
    result.active = true;
    for (int32_t r = 0; r < span.n_rows; ++r) cell(span, span.start + r) = span.prompt[r];
    slot.length = result.computed = span.start + span.n_rows;
    if (span.samples && waits(slot)) {  // a decode span begins with the last row
      slot.last_token = span.prompt[span.n_rows - 1];
      --slot.length;
      --result.computed;
      return;
    }
    if (span.samples) finish(slot, result, fake_next(read(span, slot.length)), slot.length);
  }

  // Writes width rows as a verify pass would, garbage beyond what it "accepts".
  void decode(const Span& span, Slot& slot, SpanResult& result) {
    if (waits(slot)) return;
    result.active = true;
    int32_t width = std::min(span.n_rows, slot.limit - slot.length - 1);
    if (used_rows_ > 0) width = std::min<int32_t>(width, used_rows_);
    ASHLAR_CHECK_LT(0, width);
    ASHLAR_CHECK_LE(0, slot.last_token);
    const int32_t base = slot.length;
    for (int32_t r = 0; r < width; ++r) cell(span, base + r) = -1 - r;
    const auto accepted = static_cast<int32_t>(mix(launches_ * 131 + span.slot) % width);
    for (int32_t r = 0; r <= accepted && !waits(slot); ++r) {
      cell(span, base + r) = slot.last_token;
      finish(slot, result, fake_next(read(span, base + r + 1)), base + r + 1);
      if (slot.done) break;
    }
    result.n_drafted = width - 1;
    result.n_accepted = std::max(result.n_tokens - 1, 0);
    slot.length = result.computed = base + result.n_tokens;
    result.n_decided = result.n_tokens;
  }

  // Without a last token: what it appends is computed as well.
  void extend(const Span& span, Slot& slot, SpanResult& result) {
    if (waits(slot)) return;
    result.active = true;
    ASHLAR_CHECK_LE(slot.prompt_length, slot.length);
    const int32_t width = std::min(span.n_rows, slot.limit - slot.length);
    ASHLAR_CHECK_LT(0, width);
    const int32_t base = slot.length;
    for (int32_t r = 0; r < width; ++r) cell(span, base + r) = -1 - r;
    const auto wanted = static_cast<int32_t>(1 + mix(launches_ * 131 + span.slot) % width);
    while (result.n_tokens < wanted && !slot.done && !waits(slot)) {
      const int32_t position = base + result.n_tokens;
      const int32_t token = fake_next(read(span, position));
      cell(span, position) = token;
      finish(slot, result, token, position);
    }
    slot.length = result.computed = base + result.n_tokens;
    result.n_decided = result.n_tokens;
  }

  const int32_t width_;
  const int32_t longest_;
  const int32_t vocab_;
  bool joins_ = false;
  std::atomic<int32_t> used_rows_ = 0;
  mutable std::mutex mutex_;
  std::array<uint64_t, 64> seeds_{};  // of fixed size: admission allocates nothing
  size_t admitted_ = 0;
  StepLimits limits_;
  const KvMemory* kv_ = nullptr;
  int32_t plane_ = 0;
  std::atomic<int32_t> fail_at_ = -1, lose_at_ = -1;
  mutable std::atomic<int32_t> fail_check_at_ = -1;
  std::atomic<int32_t> delay_us_ = 0;
  std::atomic<int32_t> launches_ = 0;
  std::atomic<int32_t> allowed_ = INT32_MAX;
  std::atomic<int32_t> begun_ = 0;
  std::array<std::atomic<int32_t>, 64> spans_{};
  std::atomic<int64_t> row_ns_ = 0, step_ns_ = 0;
  std::atomic<int64_t> progress_ns_ = 0;
  std::atomic<bool> broken_ = false;
  std::atomic<int32_t> max_with_others_ = 0, max_alone_ = 0;
};

}  // namespace ashlar::testing
