// SPDX-License-Identifier: Apache-2.0
// Products with weights of bf16 on the tensor cores.
//
// The law of a sum, which decides about its bits: K is cut into `splits` segments at multiples of 128, their number
// chosen from the weight's shape alone (splits_of); a segment is one chain of m16n8k16 steps from zero; where there are
// several, they are added in fp32 in ascending order, from zero. An output is the same whatever shares its tile: the
// instruction never mixes rows of x. The weight is the first operand (16 outputs), rows of x the second (8 rows), so
// that a single row wastes little.
//
// A block has 64 outputs, 16 a warp, and kRows places. A stage of the pipeline holds one tile of the weight, which is
// contiguous, and 64 columns of the rows, permuted alike.

#include "copies.cuh"
#include "device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTileBytes = kTile * kTile * 2;

template <int kRows, int kStages>
__global__ void __launch_bounds__(kThreads) product_kernel(const __grid_constant__ ProductCall call, bool aligned) {
  constexpr int kStageBytes = kTileBytes + kRows * kTile * 2;
  extern __shared__ __align__(128) char shared[];
  __shared__ int32_t rows_of_places[kRows];  // of `out`; -1: none

  begin_kernel();
  const int32_t tile = static_cast<int32_t>(blockIdx.y);
  const auto* weight = static_cast<const char*>(call.weight);
  if (call.group.experts != nullptr) {
    const int32_t expert = call.group.experts[tile];
    if (expert < 0) return;
    weight += expert * call.expert_stride;
  }
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads) {
    const int32_t place = tile * kRows + i;
    rows_of_places[i] = call.group.rows != nullptr ? call.group.rows[place] : place < call.rows ? place : -1;
  }
  __syncthreads();

  const int32_t k_padded = (call.k + kInputPad - 1) / kInputPad * kInputPad;
  const int32_t stages = k_padded / kTile;
  weight += int64_t{blockIdx.x} * stages * kTileBytes;

  const auto* const x = static_cast<const __nv_bfloat16*>(call.x);
  const auto load_stage = [&](int32_t stage) {
    char* const to = shared + stage % kStages * kStageBytes;
    const char* const from = weight + int64_t{stage} * kTileBytes;
#pragma unroll
    for (int i = 0; i < kTileBytes / 16 / kThreads; ++i) {
      const int piece = (i * kThreads + static_cast<int>(threadIdx.x)) * 16;
      copy_async(to + piece, from + piece, 16);
    }
    char* const rows = to + kTileBytes;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * 8; i += kThreads) {
      const int place = i / 8, piece = i % 8;
      const int32_t row = rows_of_places[place];
      const int32_t column = stage * kTile + piece * 8;
      const int32_t there = row < 0 ? 0 : min(max(call.k - column, 0), 8);
      char* const at = rows + place * 128 + (piece ^ (place % 8)) * 16;
      const __nv_bfloat16* const elements =
          there == 0 ? x : x + int64_t{row / call.group.rows_of_x} * call.x_stride + column;
      if (aligned) {
        copy_async(at, elements, there * 2);
      } else {
        for (int e = 0; e < 8; ++e) {
          reinterpret_cast<__nv_bfloat16*>(at)[e] = e < there ? elements[e] : __float2bfloat16_rn(0.0F);
        }
      }
    }
  };

  float sum[kRows / 8][4] = {}, total[kRows / 8][4] = {};
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < stages) load_stage(i);
    asm volatile("cp.async.commit_group;");
  }
  const int32_t a_row = 16 * warp + lane % 8 + lane / 8 % 2 * 8;
  int32_t segment = 0;
  for (int32_t stage = 0; stage < stages; ++stage) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
    __syncthreads();
    // The place that is loaded now was read in the turn before, which every thread has left.
    if (stage + kStages - 1 < stages) load_stage(stage + kStages - 1);
    asm volatile("cp.async.commit_group;");
    const uint32_t tile_at = shared_address(shared + stage % kStages * kStageBytes);
    const uint32_t rows_at = tile_at + kTileBytes;
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
      uint32_t a[4];
      load_matrices(a, tile_at + a_row * 128 + ((2 * step + lane / 16) ^ (a_row % 8)) * 16);
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) {
        uint32_t b[2];
        const int place = 8 * j + lane % 8;
        load_matrices(b, rows_at + place * 128 + ((2 * step + lane / 8 % 2) ^ (place % 8)) * 16);
        multiply(sum[j], a, b[0], b[1]);
      }
    }
    if (call.splits > 1 && stage + 1 == k_padded / 128 * (segment + 1) / call.splits * 2) {
      ++segment;
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total[j][i] += sum[j][i], sum[j][i] = 0;
      }
    }
  }

  const int32_t output = static_cast<int32_t>(blockIdx.x) * kTile + 16 * warp + lane / 4;
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int32_t row = rows_of_places[8 * j + lane % 4 * 2 + c];
      if (row < 0) continue;
      float low = call.splits > 1 ? total[j][c] : sum[j][c];
      float high = call.splits > 1 ? total[j][2 + c] : sum[j][2 + c];
      if (call.bias != nullptr) {
        if (output < call.n) low += call.bias[output];
        if (output + 8 < call.n) high += call.bias[output + 8];
      }
      if (call.finish == Finish::kGated) {
        const int32_t column = output / 16 * 8 + output % 8;
        if (column < call.width) finish(call, row, column, low, high);
      } else {
        if (output < call.width) finish(call, row, output, low, 0);
        if (output + 8 < call.width) finish(call, row, output + 8, high, 0);
      }
    }
  }
}

template <int kRows, int kStages>
void launch(cudaStream_t stream, const ProductCall& call) {
  const bool aligned = reinterpret_cast<uintptr_t>(call.x) % 16 == 0 && call.x_stride % 8 == 0;
  const int32_t places = call.group.rows != nullptr ? call.group.places : call.rows;
  const dim3 grid(blocks_for(call.n, kTile), blocks_for(places, kRows));
  constexpr int kShared = kStages * (kTileBytes + kRows * kTile * 2);
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, product_kernel<kRows, kStages>, kShared);
  start(stream, {grid, kThreads, kShared}, product_kernel<kRows, kStages>, call, aligned);
}

}  // namespace

int32_t tile_rows(int32_t rows) { return rows <= 8 ? 8 : rows <= 32 ? 32 : 64; }

void product_bf16(cudaStream_t stream, const ProductCall& call, int32_t tile_rows) {
  // Few rows read the weight as fast as memory gives it if enough of it is in flight: up to what any GPU allows a
  // block.
  switch (tile_rows) {
    case 8:
      return launch<8, 10>(stream, call);
    case 32:
      return launch<32, 7>(stream, call);
    default:
      return launch<64, 4>(stream, call);
  }
}

}  // namespace ashlar::cuda
