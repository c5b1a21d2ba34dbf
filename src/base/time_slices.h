#pragma once
// How soon a thread that hands out work gets a core that computes.

#include <cstdint>

namespace ashlar {

/// How many answers are under way in this process; told by its engine.
void tell_company(int32_t answers);

/// For threads that hand out work and answers and soon sleep again, whenever they begin something: asks the kernel to
/// let the calling thread run at once when it is woken, though others keep all cores busy, and not when they have used
/// up a slice of 1.5 to 3 ms. Its share of a core stays what it was. With many answers under way it asks for no such
/// thing: there an interruption costs all of them, and each waits for a long step anyway.
///
/// Linux 6.12 and newer know such a wish; elsewhere nothing changes. Costs a load unless the company has changed.
void suit_time_slices();

}  // namespace ashlar
