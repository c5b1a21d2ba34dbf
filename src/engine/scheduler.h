// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides what each step computes. plan() works with upper bounds, since results of the step in flight are not known
// yet; collect() brings the bounds back to the facts.

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/page_cache.h"
#include "decode/decoder.h"
#include "engine/engine.h"
#include "engine/prefill_pace.h"
#include "engine/sequence.h"

namespace ashlar {

/// A step on its way: the plan, who is in it, and room for its results.
struct Step {
  struct Member {
    Sequence* sequence = nullptr;
    int32_t max_tokens = 0;  ///< upper bound of what it may append
    int32_t min_new_tokens = 0;
    int32_t prefill_to = 0;  ///< prefill: tokens computed when it is done; 0 for decode spans
  };
  StepPlan plan;
  std::vector<Member> members;  // as plan.spans
  StepResult result;
  std::string error;         ///< not empty: the launch failed and the results mean nothing
  bool device_lost = false;  ///< then: and so will every other

  int32_t prompt_rows() const {
    int32_t rows = 0;
    for (const Span& span : plan.spans) rows += span.prompt != nullptr ? span.n_rows : 0;
    return rows;
  }
  bool has_answers() const { return plan.n_rows > prompt_rows(); }
};

class Scheduler {
 public:
  Scheduler(const EngineOptions& options, Decoder& decoder, SlotTable& slots, const KvMemory& memory,
            const PromptRows& prompt_rows);

  /// Rows of prompts that a step has room for in which answers run, however many rows these use.
  static int32_t min_prompt_rows(int32_t chunk, const StepShape& shape) {
    return std::max(std::min(chunk, kMinPromptRows), shape.block);
  }

  /// Queues a sequence; on an exception the caller keeps it.
  void add(std::unique_ptr<Sequence>& sequence);
  /// Reports the sequence's end without having queued it.
  void refuse(Sequence& sequence, std::string_view error) { end(sequence, FinishReason::kError, error); }
  /// Ends the sequence if it is still here.
  void cancel(RequestId id);
  /// Ends all sequences with `reason`; those in flight are released when their steps come back.
  void end_all(FinishReason reason, std::string_view error);

  /// Fills step.plan; false if there is nothing to run.
  bool plan(Step& step);
  /// Whether extend() might find something to add.
  bool has_room_for_waiting() const;
  /// Whether plan() left a sequence out whose constraint waits for a mask.
  bool left_out() const { return left_out_; }
  /// Adds sequences that wait to a planned step that has not begun.
  void extend(Step& step);
  /// Takes in the results of a step, in the order the steps were planned.
  void collect(Step& step);
  /// Called when nothing could be planned and nothing is in flight although sequences remain: ends the oldest, so that
  /// the rest can go on.
  void fail_oldest();

  /// Aborts unless everything that sequences took has come back and the accounts of pages agree. While nothing runs,
  /// waits or is in flight. False if it was interrupted.
  bool check_idle(Interruption& interruption) const;

  bool empty() const { return waiting_.empty() && running_.empty(); }
  PageCache& cache() { return cache_; }
  /// Adds gauges and totals that the scheduler keeps.
  void report(EngineCounters& counters) const;

 private:
  static constexpr int32_t kMinPromptRows = 64;  // a piece of someone's prompt
  using Owned = std::unique_ptr<Sequence>;

  void plan_spans(Step& step);
  void plan_decodes(Step& step);
  void add_decode(Step& step, Sequence& sequence);
  /// Rows that a step reserves for the sequence's next tokens.
  int32_t decode_rows(const Sequence& sequence) const;
  void plan_prefills(Step& step);
  void drop_preempted(Step& step);
  void admit_waiting(Step& step);
  /// Makes a sequence that waits for its mask give its slot to one in the queue that does not.
  void free_slot(const Step& step);
  /// Counts members from `first` on as in flight.
  static void count_in(const Step& step, size_t first);
  bool admit(Sequence& sequence);
  /// Writes what the device's side keeps of a sequence that begins.
  void prepare_slot(const Sequence& sequence);
  /// Whether anything has changed since the sequence was refused for want of pages that could let it in.
  bool may_fit(const Sequence& sequence) const;
  bool uses_cache(const Sequence& sequence) const { return options_.prefix_cache && !sequence.shape.whole_sequence; }
  /// Pages of the cache that the sequence begins with, and the snapshot with them. Returns tokens covered.
  int32_t take_cached(Sequence& sequence);
  void add_prefill(Step& step, Sequence& sequence);
  /// What the span begins with and leaves of recurrent states.
  void plan_states(Span& span, Sequence& sequence);
  /// Gives back the snapshots that the step was to fill.
  void drop_saves(Span& span) noexcept;
  void drop_saves(Step& step) noexcept;
  /// After a span: the snapshot that it began with is needed no longer, and those that it filled belong to the pages
  /// that were published.
  void keep_saves(Span& span, Sequence& sequence) noexcept;
  void release_pages(Sequence& sequence) noexcept;
  /// Rows of answers that the bound of a step with prompts counts: those that they need, without drafts, so that
  /// prompts are as fast with a drafter as without one.
  int32_t answer_rows(const Step& step) const;
  /// Prompt rows that the step still has room for, and as many of them as keep its pace.
  int32_t room(const Step& step) const;
  int32_t prompt_room(const Step& step) const;
  /// Gives the sequence pages for `tokens` tokens, at the price of preempting younger ones. False if it has to wait.
  bool grow(Sequence& sequence, int32_t tokens);
  void report_prompt(Sequence& sequence, const SpanResult& span, const StepResult& result);
  void report_hidden(Sequence& sequence, const SpanResult& span, const StepResult& result);
  void append(Sequence& sequence, const SpanResult& span, const TokenLogprobs* logprobs);
  void count_step(Sequence& sequence, const SpanResult& span);
  void count_block(Sequence& sequence, const SpanResult& span);
  /// Ends one that is in the queue, and gives back what an interrupted admission gave it.
  void end_waiting(Sequence& sequence, FinishReason reason, std::string_view error) noexcept;
  /// Reports the end, once. Cannot fail: it could not be reported later.
  void end(Sequence& sequence, FinishReason reason, std::string_view error, bool of_request = false) noexcept;
  void release_idle();
  void free_resources(Sequence& sequence);

  EngineOptions options_;
  Decoder& decoder_;
  SlotTable& slots_;
  PageCache cache_;
  const bool has_states_;
  const PromptRows prompt_rows_;
  const int32_t min_prompt_rows_;
  PrefillPace pace_;
  std::deque<Owned> waiting_;
  std::vector<Owned> running_;  // in order of arrival
  std::vector<int32_t> free_slots_;
  bool prompts_wait_ = false;  // for rows of the step that is being planned
  // The sequence that found too few pages, and how many it needs available while its match stays what it was. None
  // was admitted since.
  RequestId refused_ = 0;
  int32_t refused_needs_ = 0;
  bool left_out_ = false;
  EngineCounters totals_;
};

}  // namespace ashlar
