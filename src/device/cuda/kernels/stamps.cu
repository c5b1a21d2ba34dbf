// SPDX-License-Identifier: Apache-2.0
// Notes the time.

#include "../stamps.h"

namespace ashlar::cuda {
namespace {

// Alone in its stream: no other stamp is on its way.
__global__ void stamp_kernel(Stamps* stamps, uint64_t end) {
  uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  const uint32_t n = stamps->n;
  if (n < Stamps::kMost) {
    stamps->at[n] = 2 * now + end;
    stamps->n = n + 1;
  }
}

}  // namespace

void stamp(cudaStream_t stream, Stamps* stamps, bool end) {
  stamp_kernel<<<1, 1, 0, stream>>>(stamps, end ? 1 : 0);
}

}  // namespace ashlar::cuda
