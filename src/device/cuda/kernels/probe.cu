// Reads memory as fast as it goes.

#include "device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kAhead = 8;  ///< loads of a thread in flight

__global__ void __launch_bounds__(kThreads) read_kernel(const uint4* from, int64_t n, uint32_t* sink) {
  begin_kernel();
  uint32_t sum = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += kAhead * step) {
    uint4 loaded[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) loaded[k] = i + k * step < n ? __ldcs(from + i + k * step) : uint4{};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) sum ^= loaded[k].x ^ loaded[k].y ^ loaded[k].z ^ loaded[k].w;
  }
  if (sum == 0x5A5A5A5AU) *sink = sum;  // so that the loads stay
}

}  // namespace

void read_memory(cudaStream_t stream, const void* from, int64_t bytes, int32_t multiprocessors, uint32_t* sink) {
  start(stream, {static_cast<unsigned>(multiprocessors) * 4, kThreads}, read_kernel, static_cast<const uint4*>(from),
        bytes / 16, sink);
}

}  // namespace ashlar::cuda
