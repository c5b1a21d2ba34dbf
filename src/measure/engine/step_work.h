// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device does in a step of an answer that an engine makes, and for how long it waits meanwhile.

#include <cstdint>
#include <functional>

#include "device/device_probe.h"

namespace ashlar {

/// Means of a step of one sequence.
struct StepWork {
  int64_t steps = 0;          ///< that were watched; 0: the device does not say what it does
  double seconds = 0;         ///< from one step's beginning to the next one's
  double idle = 0;            ///< share of these without a kernel to run
  double loose_launches = 0;  ///< kernels that the host launched one by one
};

/// Makes answer number `index` of `tokens` tokens, all the same whenever it is made, and says how many steps it took.
using MakeAnswer = std::function<int64_t(int32_t index, int32_t tokens)>;

/// Watches answers of `tokens` tokens and of half of them, whose difference is decoding, after others that leave passes
/// as they are when they have come often. Steps near an answer's end are narrower: half of the tokens should be more
/// than a step's rows, so that both have all of these.
StepWork measure_step_work(DeviceProbe& probe, int32_t tokens, const MakeAnswer& answer);

}  // namespace ashlar
