// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors that belong to one sequence of a step.

#include <exception>

#include "base/error.h"
#include "decode/slot_table.h"
#include "decode/step.h"

namespace ashlar {

/// Runs what only this span depends on. An exception ends its sequence with that error, and the other spans of the step
/// go on. False if it did. A lost device is no error of one span.
template <class Fn>
bool run_for_span(Slot& slot, SpanResult& span, const Fn& fn) {
  try {
    fn();
    return true;
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    span.error = copy_or_less(message_of(error));
    span.end = SpanEnd::kFailed;
    span.active = true;
    slot.done = true;
    return false;
  }
}

}  // namespace ashlar
