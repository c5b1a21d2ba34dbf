// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace ashlar {

namespace {

int32_t pages_of(const Sequence& sequence) { return static_cast<int32_t>(sequence.pages.size()); }

}  // namespace

Scheduler::Scheduler(const EngineOptions& options, Decoder& decoder, SlotTable& slots, const KvMemory& memory,
                     const PromptRows& prompt_rows)
    : options_(options),
      decoder_(decoder),
      slots_(slots),
      cache_(memory.pages(), PrefixIndex::mix, decoder.shape(0).block, memory.snapshots()),
      has_states_(memory.has_states()),
      prompt_rows_(prompt_rows),
      min_prompt_rows_(min_prompt_rows(prompt_rows.chunk_alone, decoder.shape(0))),
      pace_(options.prompt_step_ns) {
  running_.reserve(options.max_sequences);
  for (int32_t slot = options.max_sequences - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

void Scheduler::add(Owned& sequence) {
  waiting_.emplace_back();  // may throw, and must not take the sequence with it
  waiting_.back() = std::move(sequence);
}

void Scheduler::cancel(RequestId id) {
  const auto is_it = [id](const Owned& sequence) { return sequence->id == id; };
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(), is_it); it != waiting_.end()) {
    end(**it, FinishReason::kCancelled, {});
    waiting_.erase(it);
  } else if (const auto at = std::find_if(running_.begin(), running_.end(), is_it); at != running_.end()) {
    end(**at, FinishReason::kCancelled, {});
    release_idle();
  }
}

void Scheduler::end_all(FinishReason reason, std::string_view error) {
  for (Owned& sequence : waiting_) {
    if (sequence) end_waiting(*sequence, reason, error);
  }
  waiting_.clear();
  for (Owned& sequence : running_) end(*sequence, reason, error);
  release_idle();
}

void Scheduler::fail_oldest() {
  constexpr std::string_view kReason = "the scheduler found no step that this request could take part in";
  if (!running_.empty()) {
    end(*running_.front(), FinishReason::kError, kReason);
    release_idle();
  } else if (!waiting_.empty()) {
    end(*waiting_.front(), FinishReason::kError, kReason);
    waiting_.pop_front();
  }
}

bool Scheduler::plan(Step& step) {
  try {
    plan_spans(step);
  } catch (...) {
    drop_saves(step);
    throw;
  }
  return !step.plan.spans.empty();
}

void Scheduler::plan_spans(Step& step) {
  step.plan.spans.clear();
  step.plan.n_rows = 0;
  step.members.clear();
  step.error.clear();
  step.device_lost = false;
  prompts_wait_ = has_room_for_waiting() || std::any_of(running_.begin(), running_.end(), [](const Owned& sequence) {
                    return sequence->state == SequenceState::kPrefill;
                  });
  left_out_ = false;
  plan_decodes(step);
  plan_prefills(step);
  drop_preempted(step);
  release_idle();
  admit_waiting(step);
  count_in(step, 0);
}

void Scheduler::extend(Step& step) {
  const size_t first = step.members.size();
  try {
    admit_waiting(step);
  } catch (...) {
    count_in(step, first);
    throw;
  }
  count_in(step, first);
}

void Scheduler::count_in(const Step& step, size_t first) {
  for (size_t i = first; i < step.members.size(); ++i) {
    const Step::Member& member = step.members[i];
    ++member.sequence->inflight;
    member.sequence->inflight_tokens += member.max_tokens;
    member.sequence->inflight_min += member.min_new_tokens;
  }
}

void Scheduler::plan_decodes(Step& step) {
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->state == SequenceState::kDecode) add_decode(step, *running_[i]);
  }
}

// Next to prompts, a sequence that uses few of the rows that it may have leaves them the others. With twice as many as
// it used last it is back at all of them in a few steps, should it have a use for them.
int32_t Scheduler::decode_rows(const Sequence& sequence) const {
  const StepShape& shape = sequence.shape;
  if (shape.min_rows == 0 || !prompts_wait_ || sequence.newest_rows == 0) return shape.rows;
  return std::min(shape.rows, std::max(shape.min_rows, 2 * sequence.newest_rows));
}

void Scheduler::add_decode(Step& step, Sequence& sequence) {
  if (sequence.waits_for_mask()) {
    left_out_ = true;
    ++sequence.left_out;
    return;
  }
  sequence.left_out = 0;
  const auto known = static_cast<int32_t>(sequence.tokens.size());
  const int32_t left = sequence.limit - known - sequence.inflight_min;
  if (left <= 0) return;  // the steps in flight take it to its limit
  const StepShape& shape = sequence.shape;
  const int32_t rows = decode_rows(sequence);
  if (step.plan.n_rows + rows > prompt_rows_.max_alone) return;  // its turn comes when older ones have ended
  const int32_t most = std::min(known + sequence.inflight_tokens, sequence.limit);
  if (!grow(sequence, shape.max_positions(most, sequence.limit))) return;
  step.plan.spans.push_back({sequence.slot, nullptr, 0, rows, true, sequence.pages.data(), pages_of(sequence)});
  step.plan.n_rows += rows;
  step.members.push_back({&sequence, std::min(shape.tokens, left), shape.min_new_tokens, 0});
}

void Scheduler::plan_prefills(Step& step) {
  for (Owned& sequence : running_) {
    if (sequence->state == SequenceState::kPrefill) add_prefill(step, *sequence);
  }
}

// Growing one sequence may have preempted another that was planned before it in this very step.
void Scheduler::drop_preempted(Step& step) {
  for (size_t i = step.members.size(); i-- > 0;) {
    if (step.members[i].sequence->state != SequenceState::kPreempting) continue;
    step.plan.n_rows -= step.plan.spans[i].n_rows;
    drop_saves(step.plan.spans[i]);
    step.plan.spans.erase(step.plan.spans.begin() + static_cast<int64_t>(i));
    step.members.erase(step.members.begin() + static_cast<int64_t>(i));
  }
}

int32_t Scheduler::answer_rows(const Step& step) const {
  int32_t rows = 0;
  for (size_t i = 0; i < step.plan.spans.size(); ++i) {
    const Span& span = step.plan.spans[i];
    if (span.prompt != nullptr) continue;
    const StepShape& shape = step.members[i].sequence->shape;
    rows += shape.min_rows > 0 ? shape.min_rows : span.n_rows;
  }
  return rows;
}

int32_t Scheduler::room(const Step& step) const {
  const int32_t room = prompt_rows_.max_alone - step.plan.n_rows;
  if (!step.has_answers()) return room;
  const int32_t most = std::max(prompt_rows_.max_shared - answer_rows(step), min_prompt_rows_);
  return std::min(room, most - step.prompt_rows());
}

int32_t Scheduler::prompt_room(const Step& step) const {
  const int32_t prompts = step.prompt_rows(), others = step.plan.n_rows - prompts;
  return std::min(room(step), pace_.max_rows(others) - prompts);
}

void Scheduler::add_prefill(Step& step, Sequence& sequence) {
  const StepShape& shape = sequence.shape;
  const int32_t left = sequence.prefill_end - sequence.planned;
  // In whole blocks, which prefill_end and planned consist of as well where blocks are longer than a row.
  int32_t room = prompt_room(step);
  // A block that is longer than the pace allows: the first prompt goes on all the same.
  if (step.prompt_rows() == 0) {
    room = std::max(room, std::min(shape.block, prompt_rows_.max_alone - step.plan.n_rows));
  }
  const int32_t chunk = step.has_answers() ? prompt_rows_.chunk_shared : prompt_rows_.chunk_alone;
  int32_t rows = shape.whole_blocks(std::max(chunk, shape.block));
  rows = std::min({rows, left, shape.whole_blocks(room)});
  if (rows <= 0) return;
  const int32_t to = sequence.planned + rows;
  const bool last = to == sequence.prefill_end;
  if (!grow(sequence, to)) return;
  const bool samples = last && shape.prefill_samples && !sequence.request.prompt_only;
  Span span = {sequence.slot,     sequence.tokens.data() + sequence.planned,
               sequence.planned,  rows,
               samples,           sequence.pages.data(),
               pages_of(sequence)};
  // The row before a token scores it.
  const int32_t from = std::max(sequence.next_scored - 1, span.start);
  const int32_t scored = std::min(to, sequence.prompt_length - 1) - from;
  if (scored > 0) {
    span.score_from = from - span.start;
    span.score_to = span.score_from + scored;
  }
  const int32_t hidden_to = sequence.request.hidden_states ? std::min(to, sequence.prompt_length) : 0;
  if (hidden_to > std::max(sequence.next_hidden, span.start)) {
    span.hidden_from = std::max(sequence.next_hidden, span.start) - span.start;
    span.hidden_to = hidden_to - span.start;
  }
  if (has_states_) plan_states(span, sequence);
  step.plan.spans.push_back(span);
  step.plan.n_rows += rows;
  const int32_t tokens = samples ? 1 : 0;
  step.members.push_back({&sequence, tokens, tokens, to});
  sequence.planned = to;
  if (!last) return;
  sequence.state = SequenceState::kDecode;
  if (shape.joins_prefill) add_decode(step, sequence);
}

bool Scheduler::grow(Sequence& sequence, int32_t tokens) {
  while (sequence.state != SequenceState::kPreempting) {
    const int32_t missing = pages_for(tokens) - static_cast<int32_t>(sequence.pages.size());
    if (missing <= 0 || cache_.allocate(missing, sequence.pages)) return true;
    const bool pages_are_coming = std::any_of(running_.begin(), running_.end(), [](const Owned& other) {
      return other->state == SequenceState::kRetiring ||
             (other->state == SequenceState::kPreempting && other->inflight > 0);
    });
    if (pages_are_coming) return false;
    // The youngest gives way. What it published stays cached as long as no sequence needs the room.
    Sequence* victim = nullptr;
    for (Owned& other : running_) {
      if (other->state == SequenceState::kPrefill || other->state == SequenceState::kDecode) victim = other.get();
    }
    // Even the only sequence may give way to itself: readmitted it shares the published pages that it has duplicates
    // of, whose parents its own pages kept from eviction.
    victim->state = SequenceState::kPreempting;
    ++victim->stats.preemptions;
    ++totals_.preemptions;
    if (victim->inflight > 0 || victim == &sequence) return false;
    release_pages(*victim);
  }
  return false;
}

void Scheduler::end(Sequence& sequence, FinishReason reason, std::string_view error, bool of_request) noexcept {
  if (sequence.ended) return;
  sequence.ended = true;
  sequence.state = SequenceState::kRetiring;
  sequence.stats.finished_ns = now_ns();
  if (reason == FinishReason::kCancelled) {
    ++totals_.requests_cancelled;
  } else if (reason == FinishReason::kError) {
    ++totals_.requests_failed;
  } else {
    ++totals_.requests_finished;
  }
  sequence.request.sink->on_end(EndEvent{reason, copy_or_less(error), std::move(sequence.stats), of_request});
}

void Scheduler::end_waiting(Sequence& sequence, FinishReason reason, std::string_view error) noexcept {
  end(sequence, reason, error);
  if (sequence.slot >= 0) return free_resources(sequence);
  release_pages(sequence);
}

void Scheduler::release_pages(Sequence& sequence) noexcept {
  if (sequence.snapshot >= 0) cache_.snapshots().release(std::exchange(sequence.snapshot, -1));
  cache_.release(sequence.pages);
  sequence.pages.clear();
}

void Scheduler::free_resources(Sequence& sequence) {
  release_pages(sequence);
  free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
}

void Scheduler::release_idle() {
  for (size_t i = running_.size(); i-- > 0;) {
    Sequence& sequence = *running_[i];
    if (sequence.inflight > 0) continue;
    if (sequence.state == SequenceState::kRetiring) {
      free_resources(sequence);
      running_.erase(running_.begin() + static_cast<int64_t>(i));
    } else if (sequence.state == SequenceState::kPreempting) {
      // From the youngest to the oldest: the queue ends up in order of arrival. Its place first: where there is no
      // memory for it, the sequence must still hold what is freed with it.
      waiting_.emplace_front();
      free_resources(sequence);
      sequence.state = SequenceState::kWaiting;
      waiting_.front() = std::move(running_[i]);
      running_.erase(running_.begin() + static_cast<int64_t>(i));
    }
  }
  if (running_.empty()) ASHLAR_CHECK_EQ(cache_.held_pages(), 0);
}

bool Scheduler::check_idle(Interruption& interruption) const {
  ASHLAR_CHECK(empty());
  ASHLAR_CHECK_EQ(cache_.held_pages(), 0);
  ASHLAR_CHECK_EQ(cache_.snapshots().held() + cache_.snapshots().taken(), 0);
  ASHLAR_CHECK_EQ(free_slots_.size(), static_cast<size_t>(slots_.size()));
  std::vector<bool> is_free(free_slots_.size(), false);
  for (const int32_t slot : free_slots_) {
    ASHLAR_CHECK(!is_free[static_cast<size_t>(slot)]);
    is_free[static_cast<size_t>(slot)] = true;
  }
  decoder_.check_integrity();
  return cache_.check_integrity(interruption);
}

void Scheduler::report(EngineCounters& counters) const {
  counters = totals_;
  counters.running = static_cast<int32_t>(running_.size());
  counters.waiting = static_cast<int32_t>(waiting_.size());
  counters.pages_total = cache_.total();
  counters.pages_free = cache_.free_pages();
  counters.pages_cached = cache_.cached_pages();
  counters.pages_held = cache_.held_pages();
}

}  // namespace ashlar
