// SPDX-License-Identifier: Apache-2.0
#pragma once
// Philox4x32-10, the counter-based generator of every random choice of a request.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

#include <array>
#include <cstdint>

namespace ashlar {

using PhiloxBlock = std::array<uint32_t, 4>;

/// Four random words as a pure function of a 128-bit counter and a 64-bit key.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace ashlar
