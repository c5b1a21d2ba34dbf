// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decoder whose every token and acceptance is known.

#include <algorithm>
#include <string>

#include "decode/decoder.h"

namespace ashlar {

inline constexpr int32_t kKnownVocab = 97;
inline constexpr int32_t kWrongToken = 96;

inline int32_t token_after(int32_t token) { return (token * 7 + 3) % 89; }

// Accepts every draft it has rows for. With `wrong_at` it emits a token that no plain decoding would, at that position.
class KnownDecoder : public Decoder {
 public:
  explicit KnownDecoder(int32_t max_width, int32_t wrong_at = -1) : max_width_(max_width), wrong_at_(wrong_at) {}

  std::string name() const override { return "known"; }
  StepShape shape(int32_t width) const override {
    StepShape shape;
    shape.rows = shape.tokens = width > 0 ? std::min(width, max_width_) : max_width_;
    shape.lookahead = shape.rows - 1;
    return shape;
  }
  int32_t max_width() const override { return max_width_; }
  int32_t vocab() const override { return kKnownVocab; }
  int32_t max_positions() const override { return 256; }
  void register_state(KvLayout& layout, const StepLimits&) override { layout.add_paged("none", 64); }
  void start(const StepLimits&, const KvMemory&) override {}
  void admit(int32_t, Slot&, std::span<const int32_t>) override {}

  void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) override {
    for (size_t i = 0; i < plan.spans.size(); ++i) {
      const Span& span = plan.spans[i];
      Slot& slot = slots[span.slot];
      SpanResult& out = result.spans[i];
      out.n_tokens = out.n_decided = out.n_drafted = out.n_accepted = 0;
      out.end = SpanEnd::kRunning;
      out.active = span.prompt != nullptr || !slot.done;
      if (!out.active) continue;
      if (span.prompt != nullptr) {
        slot.length = span.start + span.n_rows;
        slot.last_token = span.prompt[span.n_rows - 1];
        if (span.samples) append(slot, 1, out);
      } else {
        const int32_t rows = std::min({span.n_rows, slot.width, slot.limit - slot.length - 1});
        out.n_drafted = out.n_accepted = rows - 1;
        slot.length += rows;
        append(slot, rows, out);
      }
    }
  }

 private:
  void append(Slot& slot, int32_t n, SpanResult& out) {
    const int32_t first = slot.length - n + 1;  // position of the first new token
    for (int32_t k = 0; k < n; ++k) {
      slot.last_token = first + k == wrong_at_ ? kWrongToken : token_after(slot.last_token);
      out.tokens[out.n_tokens++] = slot.last_token;
    }
    out.n_decided = n;
    if (slot.length + 1 >= slot.limit) {
      out.end = SpanEnd::kLength;
      slot.done = true;
    }
  }

  int32_t max_width_;
  int32_t wrong_at_;
};

}  // namespace ashlar
