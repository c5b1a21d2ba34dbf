// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/batch_bench.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"

namespace ashlar {

BatchBench::BatchBench(Ops& ops, std::unique_ptr<Decoder> decoder, std::vector<std::vector<int32_t>> prompts,
                       int32_t max_tokens, int32_t max_rows)
    : decoder_(std::move(decoder)),
      prompts_(std::move(prompts)),
      max_rows_(max_rows),
      shape_(decoder_->shape(0)),
      slots_(static_cast<int32_t>(prompts_.size())),
      decoded_(prompts_.size()) {
  const auto n = static_cast<int32_t>(prompts_.size());
  const StepLimits limits = {std::max(max_rows, n * shape_.rows), n, n};
  KvLayout layout;
  decoder_->register_state(layout, limits);
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts_) longest = std::max(longest, prompt.size());
  // Drafts of the last step reach beyond the limit.
  pages_of_sequence_ = (static_cast<int32_t>(longest) + max_tokens + kMaxWidth) / kPageTokens + 1;
  pages_.resize(static_cast<size_t>(n) * static_cast<size_t>(pages_of_sequence_));
  std::iota(pages_.begin(), pages_.end(), 0);
  kv_ = std::make_unique<KvMemory>(ops, layout, static_cast<int32_t>(pages_.size()), n);
  decoder_->start(limits, *kv_);
  result_.reserve(n, limits.max_rows);
  for (int32_t s = 0; s < n; ++s) {
    const auto length = static_cast<int32_t>(prompts_[static_cast<size_t>(s)].size());
    slots_[s].limit = length + max_tokens;
    slots_[s].width = shape_.rows;
    slots_[s].prompt_length = length;
    prefill(s);
  }
}

Span BatchBench::span_of(int32_t s) const {
  Span span;
  span.slot = s;
  span.n_rows = shape_.rows;
  span.pages = pages_.data() + static_cast<size_t>(s) * static_cast<size_t>(pages_of_sequence_);
  span.n_pages = pages_of_sequence_;
  return span;
}

void BatchBench::prefill(int32_t s) {
  const std::vector<int32_t>& prompt = prompts_[static_cast<size_t>(s)];
  const auto length = static_cast<int32_t>(prompt.size());
  decoder_->admit(s, slots_[s], prompt);
  for (int32_t start = 0; start < length;) {
    Span span = span_of(s);
    span.prompt = prompt.data() + start;
    span.start = start;
    span.n_rows = plan_.n_rows = std::min(max_rows_, length - start);
    span.samples = start + span.n_rows == length;
    plan_.spans = {span};
    plan_.keeps_context = true;
    decoder_->run(plan_, slots_, result_);
    start += span.n_rows;
  }
  decoded_[static_cast<size_t>(s)].assign(result_.spans[0].tokens, result_.spans[0].tokens + result_.spans[0].n_tokens);
}

BatchBench::Turn BatchBench::run(int32_t first, int32_t n, int32_t tokens, int32_t width) {
  Turn turn;
  plan_.spans.clear();
  for (int32_t i = 0; i < n; ++i) plan_.spans.push_back(span_of((first + i) % static_cast<int32_t>(prompts_.size())));
  plan_.n_rows = n * shape_.rows;
  while (turn.tokens < int64_t{n} * tokens) {
    const int64_t begin = now_ns();
    if (width == 0) {
      decoder_->plan(plan_);
    } else {
      for (Span& span : plan_.spans) span.drafts = {width, width, width, width > 1, {}};
      plan_.budget.times.clear();
    }
    plan_.keeps_context = true;  // turns of other widths go on with the same sequences
    decoder_->enqueue(plan_, slots_, result_);
    decoder_->collect(plan_, result_);
    turn.ns += now_ns() - begin;
    const int64_t before = turn.tokens;
    for (int32_t i = 0; i < n; ++i) {
      const SpanResult& result = result_.spans[static_cast<size_t>(i)];
      std::vector<int32_t>& decoded = decoded_[static_cast<size_t>(plan_.spans[static_cast<size_t>(i)].slot)];
      decoded.insert(decoded.end(), result.tokens, result.tokens + result.n_tokens);
      turn.tokens += result.n_tokens;
      turn.rows += result.n_rows;
    }
    turn.spans += n;
    if (turn.tokens == before) break;  // all have reached their limits
  }
  return turn;
}

}  // namespace ashlar
