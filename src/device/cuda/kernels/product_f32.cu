// SPDX-License-Identifier: Apache-2.0
// Products with weights of fp32: routers, and checkpoints whose numbers bf16 would change. A warp has an output of a
// row; lane l adds inputs l, l + 32, ... in a chain, and the lanes' sums meet in a fixed order. Rows never share a sum.

#include "device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kAtOnce = 16;  // loads of a lane that are on their way while it adds none

__device__ float dot(const __nv_bfloat16* x, const float* weight, int32_t k, int lane) {
  float sum = 0;
  int32_t i = lane;
  for (; i + 32 * (kAtOnce - 1) < k; i += 32 * kAtOnce) {
    float numbers[kAtOnce], weights[kAtOnce];
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) numbers[a] = __bfloat162float(x[i + 32 * a]), weights[a] = weight[i + 32 * a];
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) sum = fmaf(numbers[a], weights[a], sum);
  }
  for (; i < k; i += 32) sum = fmaf(__bfloat162float(x[i]), weight[i], sum);
  return warp_sum(sum);
}

__global__ void __launch_bounds__(32 * kWarps) product_kernel(const __grid_constant__ ProductCall call) {
  begin_kernel();
  const int32_t row = static_cast<int32_t>(blockIdx.y);
  const int32_t column = static_cast<int32_t>(blockIdx.x) * kWarps + static_cast<int32_t>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (column >= call.width) return;
  const auto* weight = static_cast<const char*>(call.weight);
  if (call.group.experts != nullptr) weight += call.group.experts[row] * call.expert_stride;
  const auto* const x = static_cast<const __nv_bfloat16*>(call.x) + row / call.group.rows_of_x * call.x_stride;
  const auto sum_of = [&](int64_t output) {
    const float sum = dot(x, reinterpret_cast<const float*>(weight) + output * call.k, call.k, lane);
    return call.bias != nullptr ? sum + call.bias[output] : sum;
  };
  const float y = sum_of(column);
  const float up = call.finish == Finish::kGated ? sum_of(int64_t{call.width} + column) : 0;
  if (lane == 0) finish(call, row, column, y, up);
}

}  // namespace

void product_f32(cudaStream_t stream, const ProductCall& call) {
  const dim3 grid(blocks_for(call.width, kWarps), static_cast<unsigned>(call.rows));
  start(stream, {grid, 32 * kWarps}, product_kernel, call);
}

}  // namespace ashlar::cuda
