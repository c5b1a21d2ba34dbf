// SPDX-License-Identifier: Apache-2.0
// Do mma.sync m16n8k16 and wgmma m64nNk16 give the same bits, whatever N, and with the operands swapped?
#include "device/cuda/hopper/hopper.cuh"
#include "lab.h"
#include "device/cuda/hopper/wgmma.cuh"

using lab::bf16;
using namespace ashlar::cuda;

/// d [64, kN] = a [64, k] b [kN, k]^T by one warpgroup, a single chain of k16 steps.
template <int kN>
__global__ void __launch_bounds__(128) wgmma_chain(const bf16* a, const bf16* b, int k, float* d) {
  __shared__ __align__(1024) char tiles[64 * 128 + kN * 128];
  float sum[kN / 2];
  for (int k0 = 0; k0 < k; k0 += 64) {
    for (int i = threadIdx.x; i < (64 + kN) * 8; i += 128) {
      const int row = i / 8, piece = i % 8;
      const bf16* from = row < 64 ? a + int64_t{row} * k : b + int64_t{row - 64} * k;
      *reinterpret_cast<uint4*>(tiles + row * 128 + (piece ^ (row % 8)) * 16) =
          *reinterpret_cast<const uint4*>(from + k0 + piece * 8);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    wgmma_fence();
    for (int i = 0; i < 4; ++i) {
      wgmma<kN>(sum, tile_descriptor(tiles) + 2 * i, tile_descriptor(tiles + 64 * 128) + 2 * i, k0 > 0 || i > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int j = 0; j < kN / 8; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + lane / 4 + 8 * (i / 2), column = 8 * j + 2 * (lane % 4) + i % 2;
      d[row * kN + column] = sum[4 * j + i];
    }
  }
}

/// The same by mma.sync: a block is a warp with a 16 x 8 tile (grid m / 16, n / 8). `step` is 16 or 8.
__global__ void mma_chain(const bf16* a, const bf16* b, int k, int n, int step, float* d) {
  const int lane = threadIdx.x;
  const int row = blockIdx.x * 16 + lane / 4, column = blockIdx.y * 8 + lane / 4;
  float sum[4] = {};
  const auto pair = [&](const bf16* m, int r, int c) { return *reinterpret_cast<const uint32_t*>(m + int64_t{r} * k + c); };
  for (int k0 = 0; k0 < k; k0 += step) {
    const int c = k0 + 2 * (lane % 4);
    if (step == 16) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(pair(a, row, c)), "r"(pair(a, row + 8, c)), "r"(pair(a, row, c + 8)), "r"(pair(a, row + 8, c + 8)),
            "r"(pair(b, column, c)), "r"(pair(b, column, c + 8)));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(pair(a, row, c)), "r"(pair(a, row + 8, c)), "r"(pair(b, column, c)));
    }
  }
  for (int i = 0; i < 4; ++i) {
    d[(blockIdx.x * 16 + lane / 4 + 8 * (i / 2)) * n + blockIdx.y * 8 + 2 * (lane % 4) + i % 2] = sum[i];
  }
}

__global__ void fill_wide(bf16* to, int64_t count, uint64_t seed, int spread) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const int shift = spread == 0 ? 0 : static_cast<int>(lab::mix(seed * 77 + i) % (2 * spread + 1)) - spread;
    to[i] = __float2bfloat16_rn(ldexpf(lab::random_value(seed, i, 1.0F), shift));
  }
}

int main() {
  constexpr int kMost = 12288;
  bf16* a = lab::allocate<bf16>(64 * kMost);
  bf16* b = lab::allocate<bf16>(256 * kMost);
  float* d[10];
  for (float*& to : d) to = lab::allocate<float>(64 * 256);
  std::printf("%6s %6s | differing words of 512 (64 outputs x 8 rows) against wgmma N=8\n", "k", "spread");
  std::printf("%6s %6s | %8s %8s %8s %8s %8s %8s %8s %8s | fp64 err\n", "", "", "n16", "n64", "n128", "n256", "mma16", "mma16swp",
              "mma8", "again");
  for (const int spread : {0, 4, 12}) {
    for (const int k : {64, 1024, 4096, 12288}) {
      fill_wide<<<512, 256>>>(a, int64_t{64} * k, 11 + k + spread, spread);
      fill_wide<<<512, 256>>>(b, int64_t{256} * k, 13 + k + spread, spread);
      wgmma_chain<8><<<1, 128>>>(a, b, k, d[0]);
      wgmma_chain<16><<<1, 128>>>(a, b, k, d[1]);
      wgmma_chain<64><<<1, 128>>>(a, b, k, d[2]);
      wgmma_chain<128><<<1, 128>>>(a, b, k, d[3]);
      wgmma_chain<256><<<1, 128>>>(a, b, k, d[4]);
      mma_chain<<<dim3(4, 1), 32>>>(a, b, k, 8, 16, d[5]);
      mma_chain<<<dim3(1, 8), 32>>>(b, a, k, 64, 16, d[6]);  // rows of b as M: d is [16, 64], of which 8 rows count
      mma_chain<<<dim3(4, 1), 32>>>(a, b, k, 8, 8, d[7]);
      wgmma_chain<8><<<1, 128>>>(a, b, k, d[8]);
      CHECK(cudaGetLastError());
      CHECK(cudaDeviceSynchronize());
      std::vector<std::vector<float>> out;
      for (int i = 0; i < 9; ++i) out.push_back(lab::download(d[i], 64 * 256));
      const int width[9] = {8, 16, 64, 128, 256, 8, 0, 8, 8};
      int wrong[9] = {};
      for (int r = 0; r < 64; ++r) {
        for (int c = 0; c < 8; ++c) {
          for (int i = 0; i < 9; ++i) {
            const float value = i == 6 ? out[6][c * 64 + r] : out[i][r * width[i] + c];
            wrong[i] += __builtin_bit_cast(uint32_t, value) != __builtin_bit_cast(uint32_t, out[0][r * 8 + c]);
          }
        }
      }
      const auto ha = lab::download(a, 64 * k), hb = lab::download(b, 8 * k);
      double error = 0, size = 0;
      for (int r = 0; r < 64; ++r) {
        for (int c = 0; c < 8; ++c) {
          double sum = 0;
          for (int i = 0; i < k; ++i) {
            sum += static_cast<double>(__bfloat162float(ha[r * k + i])) * __bfloat162float(hb[c * k + i]);
          }
          error += (out[0][r * 8 + c] - sum) * (out[0][r * 8 + c] - sum);
          size += sum * sum;
        }
      }
      std::printf("%6d %6d | %8d %8d %8d %8d %8d %8d %8d %8d | %.1e\n", k, spread, wrong[1], wrong[2], wrong[3], wrong[4],
                  wrong[5], wrong[6], wrong[7], wrong[8], sqrt(error / size));
    }
  }
}
