// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many positions of a block each denoising pass reveals.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ashlar {

enum class DenoiseSchedule : uint8_t { kLinear, kCosine, kSquareRoot };

std::optional<DenoiseSchedule> parse_denoise_schedule(const std::string& name);
const char* name_of(DenoiseSchedule schedule);

/// Positions to reveal in each of `passes` passes; the counts sum to `positions` exactly, and where positions >= passes
/// each is at least 1. After pass t the revealed share follows t/T (linear), 1 - cos(pi t / 2T) (cosine: few first) or
/// sqrt(t/T) (square root: many first). Fewer positions than passes need fewer passes: the result is then shorter.
/// Writes into `counts`, which is cleared first.
void denoise_counts(DenoiseSchedule schedule, int32_t positions, int32_t passes, std::vector<int32_t>& counts);

}  // namespace ashlar
