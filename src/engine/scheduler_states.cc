// SPDX-License-Identifier: Apache-2.0
// States of recurrent layers: which snapshot a prompt begins with, and which it leaves for later ones.

#include <utility>

#include "engine/scheduler.h"

namespace ashlar {

void Scheduler::plan_states(Span& span, Sequence& sequence) {
  if (sequence.snapshot >= 0 && span.start == sequence.cached) span.restores = sequence.snapshot;
  int32_t n = 0;
  for (const int32_t at : sequence.keep_states_at) {
    if (at <= span.start || at > span.start + span.n_rows) continue;
    const int32_t snapshot = cache_.snapshots().take();
    if (snapshot == Snapshots::kNone) return;
    span.saves[n++] = {at - span.start - 1, snapshot};
  }
}

void Scheduler::drop_saves(Span& span) noexcept {
  for (StateSpan::Save& save : span.saves) {
    if (save.snapshot >= 0) cache_.snapshots().give_back(std::exchange(save, {}).snapshot);
  }
}

void Scheduler::drop_saves(Step& step) noexcept {
  for (Span& span : step.plan.spans) drop_saves(span);
}

void Scheduler::keep_saves(Span& span, Sequence& sequence) noexcept {
  if (span.restores >= 0) cache_.snapshots().release(std::exchange(sequence.snapshot, -1));
  for (StateSpan::Save& save : span.saves) {
    if (save.snapshot < 0) continue;
    const int32_t tokens = span.start + save.row + 1;
    if (tokens > sequence.computed) continue;
    cache_.attach_snapshot(std::exchange(save, {}).snapshot, sequence.prefix, tokens / kPageTokens);
  }
}

}  // namespace ashlar
