// SPDX-License-Identifier: Apache-2.0
#pragma once
// The real scheduler with a decoder, step by step on the caller's thread.

#include <memory>
#include <utility>

#include "device/ops.h"
#include "engine/scheduler.h"

namespace ashlar::testing {

class SchedulerLoop {
 public:
  /// `decoder` and `ops` outlive this.
  SchedulerLoop(Ops& ops, Decoder& decoder, const EngineOptions& options)
      : SchedulerLoop(ops, decoder, options, options.prompt_rows(ops)) {}
  SchedulerLoop(Ops& ops, Decoder& decoder, const EngineOptions& options, const PromptRows& prompt_rows)
      : decoder_(decoder), slots_(options.max_sequences) {
    const StepLimits limits = {prompt_rows.max_alone, 2 * options.max_sequences, options.max_sequences};
    KvLayout layout;
    decoder.register_state(layout, limits);
    memory_ = std::make_unique<KvMemory>(ops, layout, options.kv_pages, options.max_sequences);
    decoder.start(limits, *memory_);
    scheduler_ = std::make_unique<Scheduler>(options, decoder, slots_, *memory_, prompt_rows);
    step_.result.reserve(limits.max_spans, limits.max_rows);
  }

  /// What Engine::submit() makes of a request. Returns its id.
  RequestId add(Request request) {
    auto sequence = std::make_unique<Sequence>();
    sequence->prompt_length = sequence->next_scored = static_cast<int32_t>(request.prompt.size());
    sequence->shape = decoder_.shape(request.width);
    sequence->limit = std::min(sequence->prompt_length + request.max_tokens, decoder_.max_positions());
    sequence->tokens.reserve(static_cast<size_t>(sequence->limit));
    sequence->tokens.assign(request.prompt.begin(), request.prompt.end());
    sequence->pages.reserve(static_cast<size_t>(sequence->limit + 2 * kMaxWidth) / kPageTokens);
    RequestStats& stats = sequence->stats;
    stats.accepted_at.resize(static_cast<size_t>(decoder_.max_width()));
    stats.drafted_at.resize(static_cast<size_t>(decoder_.max_width()));
    stats.lengths.resize(static_cast<size_t>(decoder_.max_width()) + 1);
    sequence->request = std::move(request);
    sequence->id = ++last_id_;
    scheduler_->add(sequence);
    return last_id_;
  }

  bool plan() { return scheduler_->plan(step_); }
  void launch() { decoder_.run(step_.plan, slots_, step_.result); }
  void collect() { scheduler_->collect(step_); }
  /// One whole step; false if there was nothing to do.
  bool step() {
    if (!plan()) return false;
    launch();
    collect();
    return true;
  }

  Scheduler& scheduler() { return *scheduler_; }
  const Step& last_step() const { return step_; }

 private:
  Decoder& decoder_;
  SlotTable slots_;
  std::unique_ptr<KvMemory> memory_;
  std::unique_ptr<Scheduler> scheduler_;
  Step step_;
  RequestId last_id_ = 0;
};

}  // namespace ashlar::testing
