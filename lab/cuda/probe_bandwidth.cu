// SPDX-License-Identifier: Apache-2.0
// How fast can weights come in, by number of blocks and bytes in flight in each? Reads only, by the copy engine.
#include "hopper.cuh"
#include "lab.h"

using namespace ashlar::cuda;

/// Block b reads chunks b, b + grid, ... of `chunk` bytes, `depth` of them in flight.
__global__ void __launch_bounds__(32) read_stream(const char* from, int64_t chunks, int chunk, int depth, bool far) {
  extern __shared__ __align__(1024) char ring[];
  __shared__ uint64_t full[64];
  if (threadIdx.x != 0) return;
  for (int i = 0; i < depth; ++i) barrier_init(&full[i], 1);
  barrier_init_fence();
  const uint64_t policy = evict_first_policy();
  const int64_t mine = (chunks - blockIdx.x + gridDim.x - 1) / gridDim.x;
  // far: a block reads one contiguous range, as the product kernel does.
  const int64_t base = far ? chunks / gridDim.x * blockIdx.x : blockIdx.x;
  const int64_t step = far ? 1 : gridDim.x;
  const int64_t count = far ? chunks / gridDim.x : mine;
  for (int64_t i = 0; i < count + depth; ++i) {
    const int slot = static_cast<int>(i % depth);
    if (i >= depth) barrier_wait(&full[slot], static_cast<uint32_t>((i / depth - 1) & 1));
    if (i < count) {
      barrier_expect(&full[slot], chunk);
      copy_bulk(ring + slot * chunk, from + (base + i * step) * chunk, chunk, &full[slot], policy);
    }
  }
}

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  std::printf("%s, %d multiprocessors, L2 %d MB\n", device.name, device.multiProcessorCount, device.l2CacheSize >> 20);
  std::printf("copy 2 GiB: %.3f TB/s read + written\n", lab::copy_bandwidth());
  const int64_t bytes = int64_t{2} << 30;
  char* data = lab::allocate<char>(bytes);
  CHECK(cudaMemset(data, 3, bytes));
  CHECK(cudaFuncSetAttribute(read_stream, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 * 1024));
  std::printf("read TB/s, rows: blocks; columns: KB in flight a block (contiguous range a block | interleaved)\n%8s", "");
  const int rings[] = {16, 32, 64, 96, 128, 208};
  for (const int ring : rings) std::printf(" %13d", ring);
  std::printf("\n");
  for (const int blocks : {32, 48, 64, 96, 128, 132, 264}) {
    std::printf("%8d", blocks);
    for (const int ring : rings) {
      if (blocks > 132 && ring > 96) continue;
      double speed[2];
      for (int far = 0; far < 2; ++far) {
        const int chunk = ring == 16 ? 8192 : 16384;
        const double us = lab::time_graph(2, [&](cudaStream_t stream, int) {
          read_stream<<<blocks, 32, ring * 1024, stream>>>(data, bytes / chunk, chunk, ring * 1024 / chunk, far == 1);
        }, 3);
        speed[far] = bytes / us * 1e-6;
      }
      std::printf("   %.2f |  %.2f", speed[1], speed[0]);
    }
    std::printf("\n");
  }
  CHECK(cudaDeviceSynchronize());
}
