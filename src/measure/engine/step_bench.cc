// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/step_bench.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"

namespace ashlar {

StepBench::StepBench(Ops& ops, std::unique_ptr<Decoder> decoder, const std::vector<int32_t>& prompt, int32_t max_tokens,
                     int32_t width, int32_t max_rows)
    : decoder_(std::move(decoder)), slots_(1), prompt_(prompt), max_rows_(max_rows), shape_(decoder_->shape(width)) {
  const auto length = static_cast<int32_t>(prompt.size());
  max_tokens = std::max(max_tokens, shape_.rows + 1);  // of make_room(): a whole step always fits
  const StepLimits limits = {max_rows, 1, 1};
  KvLayout layout;
  decoder_->register_state(layout, limits);
  // Drafts of the last step reach beyond the limit.
  pages_.resize((length + max_tokens + kMaxWidth) / kPageTokens + 1);
  std::iota(pages_.begin(), pages_.end(), 0);
  kv_ = std::make_unique<KvMemory>(ops, layout, static_cast<int32_t>(pages_.size()));
  decoder_->start(limits, *kv_);
  result_.reserve(1, max_rows);
  const auto is_limited = [](const KvLayout::Plane& plane) { return plane.max_pages > 0; };
  prompt_lasts_ = layout.states().empty() && std::none_of(layout.planes().begin(), layout.planes().end(), is_limited);

  before_prompt_.limit = length + max_tokens;
  before_prompt_.width = width;
  before_prompt_.prompt_length = length;
  prefill(0);
}

void StepBench::narrow(int32_t width) {
  shape_ = decoder_->shape(width);
  plan_.spans[0].n_rows = plan_.n_rows = shape_.rows;
}

void StepBench::prefill(int32_t known) {
  Slot& slot = slots_[0];
  slot = before_prompt_;
  decoder_->admit(0, slot, prompt_);
  const auto length = static_cast<int32_t>(prompt_.size());
  const int32_t prefill = shape_.prefill(length);
  for (int32_t start = known; start < prefill;) {
    const int32_t rows = std::min(shape_.whole_blocks(max_rows_), prefill - start);
    const bool samples = shape_.prefill_samples && start + rows == length;
    plan_.spans = {
        {0, prompt_.data() + start, start, rows, samples, pages_.data(), static_cast<int32_t>(pages_.size())}};
    plan_.n_rows = rows;
    decoder_->run(plan_, slots_, result_);
    start += rows;
  }
  after_prompt_ = slot;
  plan_.spans = {{0, nullptr, 0, shape_.rows, true, pages_.data(), static_cast<int32_t>(pages_.size())}};
  plan_.n_rows = shape_.rows;
}

void StepBench::warm_up() {
  constexpr int kSteps = 8;
  constexpr int64_t kLongest = 50'000'000;  // nanoseconds: what takes longer is too large for any cache
  const int64_t tokens = tokens_;
  const size_t recorded = times_.size();
  const int64_t begin = now_ns();
  for (int i = 0; i < kSteps && (i == 0 || now_ns() - begin < kLongest); ++i) step();
  times_.resize(recorded);
  tokens_ = tokens;
  make_room();  // here, where nothing is timed
}

// A step that could not use its whole width for nearness of the limit would be cheaper than others.
void StepBench::make_room() {
  if (!slots_[0].done && slots_[0].length + shape_.rows < slots_[0].limit) return;
  if (!prompt_lasts_) {
    prefill(0);
  } else if (shape_.prefill_samples) {
    // The last page again, as after a prefix hit: a head that reads the newest hidden state finds it there.
    prefill((static_cast<int32_t>(prompt_.size()) - 1) / kPageTokens * kPageTokens);
  } else {
    slots_[0] = after_prompt_;
    decoder_->admit(0, slots_[0], prompt_);  // it holds tokens between steps
  }
}

void StepBench::step() {
  make_room();
  decoder_->run(plan_, slots_, result_);
  times_.push_back(result_.times);
  tokens_ += result_.spans[0].n_tokens;
}

}  // namespace ashlar
