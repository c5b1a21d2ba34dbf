// SPDX-License-Identifier: Apache-2.0
// Which waiting sequences begin, with what the cache has of them, and when it is worth looking again.

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/scheduler.h"

namespace ashlar {
namespace {

// Tokens that may come from the cache. Rows that score the prompt or report hidden states are computed.
int32_t max_cached(const Sequence& sequence) {
  const int32_t cacheable = sequence.shape.cacheable(static_cast<int32_t>(sequence.tokens.size()));
  const int32_t scored = sequence.scores_prompt() ? sequence.next_scored - 1 : cacheable;
  return std::min({cacheable, scored, sequence.reports_hidden() ? sequence.next_hidden : cacheable});
}

}  // namespace

bool Scheduler::has_room_for_waiting() const {
  if (free_slots_.empty()) return false;
  const auto it =
      std::find_if(waiting_.begin(), waiting_.end(), [](const Owned& sequence) { return !sequence->waits_for_mask(); });
  return it != waiting_.end() && may_fit(**it);
}

// At once where nothing else can run. Else it may be back soon, and would not find a slot as soon.
void Scheduler::free_slot(const Step& step) {
  constexpr int32_t kPatience = 32;  // turns
  if (!free_slots_.empty() ||
      std::all_of(waiting_.begin(), waiting_.end(), [](const Owned& sequence) { return sequence->waits_for_mask(); })) {
    return;
  }
  const int32_t patience = step.plan.spans.empty() ? 0 : kPatience;
  const auto it = std::find_if(running_.rbegin(), running_.rend(), [patience](const Owned& sequence) {
    return sequence->state == SequenceState::kDecode && sequence->left_out > patience && sequence->waits_for_mask();
  });
  if (it == running_.rend()) return;
  (*it)->state = SequenceState::kPreempting;
  ++(*it)->stats.preemptions;
  ++totals_.preemptions;
  release_idle();
}

void Scheduler::admit_waiting(Step& step) {
  free_slot(step);
  for (auto at = waiting_.begin(); at != waiting_.end() && !free_slots_.empty() && room(step) > 0;) {
    Sequence& sequence = **at;
    if (sequence.waits_for_mask()) {
      left_out_ = true;
      ++at;
      continue;
    }
    const bool preempting = std::any_of(running_.begin(), running_.end(),
                                        [](const Owned& other) { return other->state == SequenceState::kPreempting; });
    if (preempting || !may_fit(sequence)) return;
    try {
      if (!admit(sequence)) return;
    } catch (const DeviceLost&) {
      throw;
    } catch (
        const std::exception& error) {  // it asks for more memory than there is, which is no other sequence's error
      end_waiting(sequence, FinishReason::kError, message_of(error));
      at = waiting_.erase(at);
      continue;
    }
    // Preempted sequences return to their place, so that the oldest is never the victim of a younger one.
    const auto place = std::upper_bound(running_.begin(), running_.end(), sequence.id,
                                        [](RequestId id, const Owned& other) { return id < other->id; });
    running_.insert(place, std::move(*at));
    at = waiting_.erase(at);
    if (sequence.state == SequenceState::kPrefill) {
      add_prefill(step, sequence);
    } else if (sequence.request.prompt_only) {  // nothing of it is to be computed
      end(sequence, FinishReason::kLength, {});
      release_idle();
    } else {
      add_decode(step, sequence);  // the cache has all of its prompt that is prefilled
    }
  }
}

// While none is admitted, what the sequence lacks shrinks only where pages come back, or where running sequences
// publish what continues its match; that they hold what it matched already costs as many pages as it saves.
bool Scheduler::may_fit(const Sequence& sequence) const {
  if (refused_ != sequence.id || cache_.available() >= refused_needs_) return true;
  return uses_cache(sequence) &&
         cache_.may_match_more(sequence.tokens, max_cached(sequence), sequence.request.salt, sequence.prefix);
}

int32_t Scheduler::take_cached(Sequence& sequence) {
  sequence.prefix = {};
  std::ranges::fill(sequence.keep_states_at, 0);
  if (!uses_cache(sequence)) return 0;
  const int32_t most = max_cached(sequence);
  const uint64_t salt = sequence.request.salt;
  if (!has_states_) return cache_.match(sequence.tokens, most, sequence.pages, salt, sequence.prefix);
  const PageCache::StateMatch match = cache_.match_state(sequence.tokens, most, sequence.pages, salt, sequence.prefix);
  sequence.snapshot = match.snapshot;
  const int32_t whole_pages = most / kPageTokens * kPageTokens;
  if (match.published > match.tokens) sequence.keep_states_at[0] = match.published;
  if (whole_pages > match.published) sequence.keep_states_at[1] = whole_pages;
  return match.tokens;
}

bool Scheduler::admit(Sequence& sequence) {
  const auto known = static_cast<int32_t>(sequence.tokens.size());
  const StepShape& shape = sequence.shape;
  const int32_t cached = take_cached(sequence);
  const int32_t positions = shape.max_positions(std::min(known + shape.min_new_tokens, sequence.limit), sequence.limit);
  const int32_t lacking = pages_for(positions) - static_cast<int32_t>(sequence.pages.size()) - cache_.available();
  if (lacking > 0) {
    release_pages(sequence);
    refused_ = sequence.id;
    refused_needs_ = cache_.available() + lacking;
    return false;
  }
  refused_ = 0;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  sequence.prefill_end = shape.prefill(known);
  sequence.planned = sequence.computed = sequence.cached = cached;
  sequence.state = cached < sequence.prefill_end ? SequenceState::kPrefill : SequenceState::kDecode;
  prepare_slot(sequence);
  if (!sequence.admitted_before) {
    sequence.admitted_before = true;
    sequence.stats.cached_tokens = cached;
    sequence.stats.admitted_ns = now_ns();
  }
  if (sequence.state == SequenceState::kDecode && sequence.stats.prompt_done_ns == 0) {
    sequence.stats.prompt_done_ns = now_ns();  // all of it was in the cache
  }
  totals_.cached_tokens += cached;
  return true;
}

void Scheduler::prepare_slot(const Sequence& sequence) {
  const auto known = static_cast<int32_t>(sequence.tokens.size());
  Slot& slot = slots_[sequence.slot];
  slot.length = sequence.computed;
  slot.last_token = slot.token_before = -1;
  slot.limit = sequence.limit;
  slot.prompt_length = sequence.prompt_length;
  slot.prompt_top = sequence.request.prompt_logprobs.top;
  slot.width = sequence.request.width > 0 ? sequence.request.width : decoder_.max_width();
  slot.replays = 0;
  slot.done = false;
  slot.params = sequence.request.sampling;
  slot.stop_ids = sequence.request.stop_ids;
  // It has heard of all tokens of the answer so far, which are among those that the prefill computes again.
  slot.constraint = sequence.request.constraint.get();
  slot.choice = sequence.request.choice;
  slot.pass = sequence.block_pass;
  if (slot.params.has_penalties()) {
    slot.counts.reserve(decoder_.vocab());
    for (int32_t i = 0; i < known; ++i) {
      if (i < sequence.prompt_length) {
        slot.counts.add_prompt(sequence.tokens[i]);
      } else {
        slot.counts.add_answer(sequence.tokens[i]);
      }
    }
  }
  decoder_.admit(sequence.slot, slot, sequence.tokens);
}

}  // namespace ashlar
