// SPDX-License-Identifier: Apache-2.0
// Products with weights of 4 and 8 bits, for few rows at a time: the sums of product.cu for the values that
// quantised_layout.h says, which are bf16. As there, K is cut into `splits` segments, each one chain of m16n8k16 steps
// from zero, added in ascending order. Of formats with scales for sums (scales_sums) such a chain has 128 inputs, and a
// segment adds its chains in ascending order, each by a fused multiply-add with its scale.
//
// A warp has one segment of kUnits * 16 outputs and kRows places, and a ring of stages of its own in shared memory:
// kUnits units of the weight, and 64 columns of the rows. Nothing is waited for but its own copies. The segments of a
// block meet at the end.

#include "copies.cuh"
#include "quantised.cuh"

namespace ashlar::cuda {
namespace {

/// kLittle: for GPUs with less shared memory a block than Hopper has.
template <Packed kFormat, int kUnits, int kRows, bool kLittle>
struct Shape {
  static constexpr int kWeightBytes = kUnits * unit_bytes(kFormat);
  static constexpr int kStageBytes = kWeightBytes + kRows * 128;
  static constexpr int kStages = kLittle ? 3 : kRows == 8 ? 5 : kStageBytes > 7168 ? 3 : 4;
  static constexpr int kOutputs = kUnits * kUnitRows;
  static constexpr int kPitch = kOutputs + 4;  // of a place's sums, in floats
  static constexpr int kWarpBytes = kStages * kStageBytes;
  static_assert(kWarpBytes >= kRows * kPitch * 4 && kStageBytes % 16 == 0);
};

template <Packed kFormat, int kUnits, int kRows, bool kLittle>
__global__ void __launch_bounds__(32 * kMaxSegments)
    quantised_kernel(const __grid_constant__ ProductCall call, bool aligned) {
  using S = Shape<kFormat, kUnits, kRows, kLittle>;
  extern __shared__ __align__(128) char shared[];
  __shared__ int32_t rows_of_places[kRows];  // of `out`; -1: none

  let_successor_start();
  const auto tile = static_cast<int32_t>(blockIdx.y);
  const auto* weight = static_cast<const char*>(call.weight);
  if (call.group.experts != nullptr) {
    wait_for_predecessors();
    const int32_t expert = call.group.experts[tile];
    if (expert < 0) return;
    weight += expert * call.expert_stride;
  }
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t in_128 = (call.k + kInputPad - 1) / kInputPad;
  const int32_t first_stage = in_128 * warp / call.splits * 2,
                end = in_128 * (warp + 1) / call.splits * 2 - first_stage;
  const int32_t first_output = static_cast<int32_t>(blockIdx.x) * S::kOutputs;
  // Units of a tile lie one after the other, tiles along K as well.
  weight +=
      ((int64_t{first_output / kTile} * 2 * in_128 + first_stage) * kUnitsOfTile + first_output % kTile / kUnitRows) *
      unit_bytes(kFormat);
  char* const ring = shared + warp * S::kWarpBytes;

  const auto load_weights = [&](int32_t stage) {
    const char* const from = weight + int64_t{stage} * kUnitsOfTile * unit_bytes(kFormat);
    char* const to = ring + stage % S::kStages * S::kStageBytes;
#pragma unroll
    for (int i = 0; i < (S::kWeightBytes + 511) / 512; ++i) {
      const int at = i * 512 + lane * 16;
      if (S::kWeightBytes % 512 == 0 || at < S::kWeightBytes) copy_async(to + at, from + at, 16);
    }
  };
  const auto* const x = static_cast<const __nv_bfloat16*>(call.x);
  const auto load_rows = [&](int32_t stage) {
    char* const to = ring + stage % S::kStages * S::kStageBytes + S::kWeightBytes;
    const int32_t column = (first_stage + stage) * kTile + lane % 8 * 8;
    const int32_t in_row = min(max(call.k - column, 0), 8);
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      const int place = i * 4 + lane / 8;
      const int32_t row = rows_of_places[place];
      const int32_t there = row < 0 ? 0 : in_row;
      char* const at = to + place * 128 + ((lane % 8) ^ (place % 8)) * 16;
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

  // Weights do not depend on the kernels before this one.
#pragma unroll
  for (int i = 0; i < S::kStages - 1; ++i) {
    if (i < end) load_weights(i);
  }
  wait_for_predecessors();
  for (int i = static_cast<int>(threadIdx.x); i < kRows; i += static_cast<int>(blockDim.x)) {
    const int32_t place = tile * kRows + i;
    rows_of_places[i] = call.group.rows != nullptr ? call.group.rows[place] : place < call.rows ? place : -1;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < S::kStages - 1; ++i) {
    if (i < end) load_rows(i);
    asm volatile("cp.async.commit_group;");
  }

  float sum[kUnits][kRows / 8][4] = {};
  [[maybe_unused]] float part[kUnits][kRows / 8][4] = {};  // of 128 inputs
  [[maybe_unused]] SumScales sum_scales[kUnits];
  for (int32_t stage = 0; stage < end; ++stage) {
    asm volatile("cp.async.wait_group %0;" ::"n"(S::kStages - 2));
    __syncwarp();
    // The place that is loaded now was read in the turn before, which every lane has left.
    if (stage + S::kStages - 1 < end) {
      load_weights(stage + S::kStages - 1);
      load_rows(stage + S::kStages - 1);
    }
    asm volatile("cp.async.commit_group;");
    const char* const units = ring + stage % S::kStages * S::kStageBytes;
    const uint32_t rows_at = shared_address(units + S::kWeightBytes);
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      uint32_t b[kRows / 8][4];  // of two steps
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) {
        const int place = 8 * j + lane % 8;
        load_matrices(b[j], rows_at + place * 128 + ((4 * group + lane / 8) ^ (place % 8)) * 16);
      }
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const char* const unit = units + u * unit_bytes(kFormat);
        GroupScales<kFormat> scales;
        scales.read(unit + unit_wholes_bytes(kFormat), lane, group);
        const uint4 wholes = read_wholes<kFormat>(unit, lane, group);
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          uint32_t a[4];
          decode_step(scales, wholes, group, step, a);
#pragma unroll
          for (int j = 0; j < kRows / 8; ++j) {
            multiply(scales_sums(kFormat) ? part[u][j] : sum[u][j], a, b[j][2 * step], b[j][2 * step + 1]);
          }
        }
      }
    }
    if constexpr (scales_sums(kFormat)) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const char* const unit = units + u * unit_bytes(kFormat);
        if (stage % 2 == 0) {
          sum_scales[u].template read<kFormat>(unit, lane, 0);
          continue;
        }
        sum_scales[u].template read<kFormat>(unit, lane, 1);
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
          sum_scales[u].add(part[u][j], sum[u][j]);
#pragma unroll
          for (float& value : part[u][j]) value = 0;
        }
      }
    }
  }

  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  // [segment][place][output]
  auto* const sums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float* const at = sums + (warp * kRows + 8 * j + lane % 4 * 2 + c) * S::kPitch + u * kUnitRows + lane / 4;
        at[0] = sum[u][j][c], at[8] = sum[u][j][2 + c];
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits * 8; i += static_cast<int>(blockDim.x)) {
    const int place = i / (kUnits * 8), in_unit = i % 8, u = i / 8 % kUnits;
    const int32_t row = rows_of_places[place];
    if (row < 0) continue;
    const float* at = sums + place * S::kPitch + u * kUnitRows + in_unit;
    float low = at[0], high = at[8];
    if (call.splits > 1) low += 0.0F, high += 0.0F;
    for (int segment = 1; segment < call.splits; ++segment) {
      at += kRows * S::kPitch;
      low += at[0], high += at[8];
    }
    const int32_t output = first_output + u * kUnitRows + in_unit;
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

template <Packed kFormat, int kUnits, int kRows, bool kLittle = false>
void launch(cudaStream_t stream, const ProductCall& call) {
  using S = Shape<kFormat, kUnits, kRows, kLittle>;
  const bool aligned = reinterpret_cast<uintptr_t>(call.x) % 16 == 0 && call.x_stride % 8 == 0;
  const int32_t places = call.group.rows != nullptr ? call.group.places : call.rows;
  const dim3 grid(blocks_for(call.n, S::kOutputs), blocks_for(places, kRows));
  static_assert(kMaxSegments * S::kWarpBytes <= (kLittle ? 99 : 226) * 1024);
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, quantised_kernel<kFormat, kUnits, kRows, kLittle>, kMaxSegments * S::kWarpBytes);
  const auto warps = static_cast<unsigned>(call.splits);
  start(stream, {grid, 32 * warps, warps * size_t{S::kWarpBytes}}, quantised_kernel<kFormat, kUnits, kRows, kLittle>,
        call, aligned);
}

template <Packed kFormat>
void launch_tile(cudaStream_t stream, const ProductCall& call, int32_t tile_rows) {
  if (max_quantised_rows() == 8) return launch<kFormat, 2, 8, true>(stream, call);
  // Every block reads the rows again: many outputs a block where enough blocks remain.
  const bool wide = call.n >= 8192;
  if (tile_rows == 8) return launch<kFormat, 2, 8>(stream, call);
  if (tile_rows == 16) return wide ? launch<kFormat, 4, 16>(stream, call) : launch<kFormat, 2, 16>(stream, call);
  wide ? launch<kFormat, 4, 32>(stream, call) : launch<kFormat, 2, 32>(stream, call);
}

/// A warp has a unit.
template <Packed kFormat>
__global__ void __launch_bounds__(128) expand_kernel(const char* weight, int32_t n, int32_t k, __nv_bfloat16* to) {
  begin_kernel();
  const int64_t unit = int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (unit >= int64_t{n} / kUnitRows * (k / kTile)) return;
  const char* const from = weight + unit * unit_bytes(kFormat);
  const int64_t tile = unit / kUnitsOfTile;
  const int64_t row = tile / (k / kTile) * kTile + unit % kUnitsOfTile * kUnitRows + lane / 4;
  const int64_t column = tile % (k / kTile) * kTile + lane % 4 * 2;
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    GroupScales<kFormat> scales;
    scales.read(from + unit_wholes_bytes(kFormat), lane, group);
    const uint4 wholes = read_wholes<kFormat>(from, lane, group);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      uint32_t a[4];
      decode_step(scales, wholes, group, step, a);
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const int64_t at = packed_place(row + pair % 2 * 8, column + group * 32 + step * 16 + pair / 2 * 8, k);
        *reinterpret_cast<uint32_t*>(to + at) = a[pair];
      }
    }
  }
}

}  // namespace

int32_t max_quantised_rows() {
  static const int32_t rows = [] {
    int device = 0, bytes = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return bytes >= 226 * 1024 ? 32 : 8;
  }();
  return rows;
}

void product_quantised(cudaStream_t stream, const ProductCall& call, int32_t tile_rows) {
  if (call.format == Packed::kInt4) return launch_tile<Packed::kInt4>(stream, call, tile_rows);
  if (call.format == Packed::kInt8) return launch_tile<Packed::kInt8>(stream, call, tile_rows);
  launch_tile<Packed::kE4M3>(stream, call, tile_rows);
}

void expand(cudaStream_t stream, const void* weight, Packed format, int32_t n, int32_t k, void* to) {
  const Blocks blocks = {blocks_for(int64_t{n} / kUnitRows * (k / kTile), 4), 128};
  const auto* const from = static_cast<const char*>(weight);
  auto* const values = static_cast<__nv_bfloat16*>(to);
  if (format == Packed::kInt4) {
    start(stream, blocks, expand_kernel<Packed::kInt4>, from, n, k, values);
  } else {
    start(stream, blocks, expand_kernel<Packed::kInt8>, from, n, k, values);
  }
}

}  // namespace ashlar::cuda
