// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times at which a stream came somewhere, by the GPU's own clock.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ashlar::cuda {

/// In the GPU's memory.
struct Stamps {
  static constexpr uint32_t kMost = 1U << 20U;
  uint32_t n;  ///< stamps so far; those from kMost on are lost
  uint32_t unused;
  uint64_t at[kMost];  ///< nanoseconds times two, and one more for the end of some work
};

/// Queues a stamp, which waits for all that was asked of the stream before it.
void stamp(cudaStream_t stream, Stamps* stamps, bool end);

}  // namespace ashlar::cuda
