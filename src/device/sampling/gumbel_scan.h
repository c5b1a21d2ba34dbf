// SPDX-License-Identifier: Apache-2.0
#pragma once
// Many tokens' Gumbel noise at once, as far as is needed to know which of them could win a draw.

#include <cstdint>

#include "base/philox.h"

namespace ashlar {

inline constexpr int32_t kScanned = 64;        ///< tokens at a time
inline constexpr double kMaxScanned = 0x1p20;  ///< of tempered logits that come near the bar, and of `inverse`

/// words[i] becomes word i % 4 of philox4x32() at `counter`, whose first word goes up by one every four tokens. Returns
/// bit i where logits[i] * inverse - log(-log((words[i] + 0.5) / 2^32)) might be above `bar`: by a bound that is
/// two log 2 too high at most or, on machines without AVX2, for all.
uint64_t scan_gumbel(const float* logits, PhiloxBlock counter, uint64_t key, float inverse, float bar, uint32_t* words);

}  // namespace ashlar
