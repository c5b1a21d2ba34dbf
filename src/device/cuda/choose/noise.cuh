// SPDX-License-Identifier: Apache-2.0
#pragma once
// The noise of draws, word for word that of device/sampling/noise.h, and how large it is to 1e-5.

#include <cstdint>

namespace ashlar::cuda {

/// Philox4x32-10 (Salmon et al., SC 2011): the words of tokens 4 index to 4 index + 3 in the domain of Gumbel noise, 0.
__device__ __forceinline__ uint4 noise_words(uint64_t seed, int32_t position, uint32_t index) {
  uint4 counter = {index, static_cast<uint32_t>(position), 0, 0};
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53U, counter.x), low0 = 0xD2511F53U * counter.x;
    const uint32_t high1 = __umulhi(0xCD9E8D57U, counter.z), low1 = 0xCD9E8D57U * counter.z;
    counter = {high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

/// Standard Gumbel noise of a word to about 1e-5. Near the word 2^32 - 1, where the noise is largest, the inner logarithm
/// comes from a series in the distance to 1, which fp32 holds exactly enough.
__device__ __forceinline__ float gumbel_about(uint32_t word) {
  const float rest = (static_cast<float>(~word) + 0.5F) * 0x1p-32F;
  const float near = rest * (1 + rest * (0.5F + rest * (1.0F / 3 + rest * (0.25F + rest * 0.2F))));
  const float far = -__logf((static_cast<float>(word) + 0.5F) * 0x1p-32F);
  return -__logf(rest < 0.0625F ? near : far);
}

}  // namespace ashlar::cuda
