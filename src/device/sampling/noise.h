// SPDX-License-Identifier: Apache-2.0
#pragma once
// All randomness of a request, as pure functions of (seed, position, token). `position` is the index in the sequence of
// the token that is being chosen.

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace ashlar::noise {

/// Domains keep independent draws apart under one seed.
enum class Domain : uint32_t { kGumbel = 0, kAccept = 1, kResample = 2, kDraft = 3 };

inline PhiloxBlock block(uint64_t seed, int32_t position, uint32_t index, Domain domain) {
  return philox4x32({index, static_cast<uint32_t>(position), static_cast<uint32_t>(domain), 0},
                    static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

/// Uniform in (0, 1), never an end point: 2^32 equal cells, their midpoints.
inline double uniform(uint32_t word) { return (word + 0.5) * 0x1p-32; }

/// Standard Gumbel noise from one word; lies in (-3.2, 22.9).
inline double gumbel(uint32_t word) { return -std::log(-std::log(uniform(word))); }

/// Never below gumbel(word), at the price of one bit scan: -log(-log u) <= -log(1 - u) < (leading ones of word + 1)
/// log 2.
inline double gumbel_bound(uint32_t word) {
  const uint32_t complement = ~word;
  const int leading = complement == 0 ? 32 : __builtin_clz(complement);
  return (leading + 1) * 0.6931471805599454;
}

inline uint32_t word(uint64_t seed, int32_t position, int32_t token, Domain domain) {
  return block(seed, position, static_cast<uint32_t>(token) / 4, domain)[static_cast<uint32_t>(token) % 4];
}

}  // namespace ashlar::noise
