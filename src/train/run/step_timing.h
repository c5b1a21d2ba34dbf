// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a step takes, found out by a few.

#include <cstdint>
#include <functional>

namespace ashlar {

inline constexpr int64_t kMaxTimedBatches = 64;

/// Seconds of a usual step. `step(i)` runs a step on batch i, which it may be asked for again, and says how long that
/// took. A batch counts when it comes for the second time: what sizes that are new to a device cost, a long run pays
/// once. Batches as many as fill two seconds, 3 to 64.
double usual_seconds(const std::function<double(int64_t batch)>& step);

/// At least one.
int64_t steps_within(double minutes, double seconds_each);

}  // namespace ashlar
