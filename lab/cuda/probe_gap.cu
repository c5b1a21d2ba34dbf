// SPDX-License-Identifier: Apache-2.0
// What does a cycle lose if the host reads a small result before it sends off the next one? Graphs of busy kernels stand
// for draft and verify; the same work is sent (a) with nothing read, two cycles ahead, (b) with one read a cycle, (c)
// with one read between draft and verify as well. Reads by event and by a flag in pinned memory that the host watches.
#include <chrono>

#include "lab.h"

namespace {

using Clock = std::chrono::steady_clock;

__global__ void busy(int64_t ns) {
  int64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < ns);
}

/// Writes a result of 64 words to the host's memory, and then its number.
__global__ void report(volatile uint32_t* host, uint32_t* cycle) {
  host[threadIdx.x] = *cycle + threadIdx.x;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) host[64] = ++*cycle;
}

cudaGraphExec_t capture(cudaStream_t stream, int kernels, int64_t ns, volatile uint32_t* host, uint32_t* cycle) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kernels; ++i) busy<<<132, 128, 0, stream>>>(ns);
  report<<<1, 64, 0, stream>>>(host, cycle);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

enum class Read { kNothing, kEvent, kFlag };

void spend(int64_t ns) {
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::nanoseconds(ns);) {
  }
}

}  // namespace

int main() {
  constexpr int kCycles = 400;
  constexpr int64_t kHostNs = 10'000;  // planning of a step
  cudaStream_t stream;
  cudaEvent_t done;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  volatile uint32_t* host[2];
  uint32_t* cycle[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaHostAlloc(const_cast<uint32_t**>(&host[i]), 65 * sizeof(uint32_t), cudaHostAllocMapped));
    cycle[i] = lab::allocate<uint32_t>(1);
  }
  std::printf("%d cycles, host plans %lld us a cycle; us a cycle, and what reading costs\n%-26s %10s %16s %16s %16s %16s\n",
              kCycles, static_cast<long long>(kHostNs / 1000), "draft + verify kernels", "none",
              "event a cycle", "flag a cycle", "2 events", "2 flags");
  struct Shape {
    const char* name;
    int draft, verify;
    int64_t ns;
  };
  for (const Shape& shape : {Shape{"8B: 30 x 25 + 216 x 25 us", 30, 216, 25'000}, Shape{"0.6B: 30 x 4 + 168 x 5 us", 30, 168, 4'500}}) {
    const cudaGraphExec_t draft = capture(stream, shape.draft, shape.ns, host[0], cycle[0]);
    const cudaGraphExec_t verify = capture(stream, shape.verify, shape.ns, host[1], cycle[1]);
    const auto run = [&](Read read, bool twice) {
      uint32_t expected[2];
      for (int i = 0; i < 2; ++i) {
        CHECK(cudaMemset(cycle[i], 0, sizeof(uint32_t)));
        host[i][64] = 0;
        expected[i] = 0;
      }
      CHECK(cudaDeviceSynchronize());
      const auto await = [&](int i) {
        if (read == Read::kEvent) {
          CHECK(cudaEventRecord(done, stream));
          while (cudaEventQuery(done) == cudaErrorNotReady) {
          }
        }
        while (host[i][64] != expected[i]) {
        }
      };
      const auto begin = Clock::now();
      for (int c = 0; c < kCycles; ++c) {
        CHECK(cudaGraphLaunch(draft, stream));
        ++expected[0];
        if (twice) await(0);
        CHECK(cudaGraphLaunch(verify, stream));
        ++expected[1];
        if (read != Read::kNothing) await(1);
        spend(kHostNs);
        // Two cycles ahead, as a loop would be that reads the step before last.
        while (read == Read::kNothing && host[1][64] + 2 < expected[1]) {
        }
      }
      CHECK(cudaDeviceSynchronize());
      return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kCycles;
    };
    run(Read::kNothing, false);
    const double none = run(Read::kNothing, false);
    std::printf("%-26s %10.1f", shape.name, none);
    for (const bool twice : {false, true}) {
      for (const Read read : {Read::kEvent, Read::kFlag}) {
        const double us = run(read, twice);
        std::printf(" %8.1f (%4.1f)", us, us - none);
      }
    }
    std::printf("\n");
  }
}
