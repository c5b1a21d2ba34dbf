// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether sampling parameters are in range, and the seeds of several answers to one request.

#include <cstdint>
#include <string>

#include "device/sampling/sampling_params.h"

namespace ashlar {

/// Empty if every value is in range; otherwise a sentence naming the field, the value and the range.
std::string check_sampling(const SamplingParams& params, int32_t vocab);

/// Seed of choice `index` of a request that asks for several answers; choice 0 keeps the request's own.
uint64_t choice_seed(uint64_t seed, int32_t index);

}  // namespace ashlar
