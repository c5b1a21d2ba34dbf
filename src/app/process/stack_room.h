// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stacks where their limit is small (ulimit -s): threads take theirs from the limit too, and end the program where they
// meet it, without a word.

#include <functional>

namespace ashlar {

/// Calls `work` and returns what it returns, with room for stacks of 8 MiB: as it is where the limit leaves a megabyte
/// or more; else after the limit was raised; else, where it may not be raised, on a thread that has such a stack.
/// Threads made from then on have it too. To be called by the only thread there is.
int with_stack_room(const std::function<int()>& work);

}  // namespace ashlar
