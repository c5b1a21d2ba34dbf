// SPDX-License-Identifier: Apache-2.0
// Statistics of the tiles of rows of logits, operation by operation as base/row_math.inc has them: 16 lanes have a tile and
// the columns that are theirs there, one after the other, and lanes are combined by halving. So the bits are the host's.

#include "../kernels/keys.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 16;
constexpr int kTiles = kThreads / kLanes;         ///< of a block
constexpr int kEach = kFoldedColumns / kLanes;    ///< columns of a lane

/// power = 2^t for t <= 0.
__device__ __forceinline__ void exp2_of(float& t, float& power) {
  t = -127.0F < t ? t : -127.0F;
  const float shifted = t + 12582912.0F;
  const float part = t - (shifted - 12582912.0F);
  power = 1.326472731307149e-3F;
  power = fmaf(power, part, 9.671512991189957e-3F);
  power = fmaf(power, part, 5.550733581185341e-2F);
  power = fmaf(power, part, 2.4022242426872253e-1F);
  power = fmaf(power, part, 6.931470036506653e-1F);
  power = fmaf(power, part, 1.0F);
  power = __uint_as_float(__float_as_uint(power) + (__float_as_uint(shifted) << 23));
}

__device__ __forceinline__ uint64_t of_lane(uint64_t key, int distance) {
  return __shfl_xor_sync(~0u, static_cast<unsigned long long>(key), distance);
}

__global__ void __launch_bounds__(kThreads)
    fold_kernel(Matrix logits, Matrix adjusted, const FoldCall* calls, int32_t tiles, FoldedTile* out) {
  begin_kernel();
  const FoldCall call = calls[blockIdx.x];
  const float* values = static_cast<const float*>(logits.data) + call.row * logits.stride;
  if (call.adjusted >= 0) values = static_cast<const float*>(adjusted.data) + call.adjusted * adjusted.stride;
  const auto tile = static_cast<int32_t>(blockIdx.y * kTiles + threadIdx.x / kLanes);
  const auto lane = static_cast<int32_t>(threadIdx.x % kLanes);
  const int32_t first = tile * kFoldedColumns + lane;
  float own[kEach];
  uint64_t best = 0, second = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int32_t column = first + i * kLanes;
    own[i] = column < logits.cols && column != call.excluded ? values[column] : -CUDART_INF_F;
    const uint64_t key = key_of(own[i], column), lower = key < best ? key : best;
    second = max_of(second, lower);
    best = max_of(best, key);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const uint64_t its_best = of_lane(best, distance), its_second = of_lane(second, distance);
    const uint64_t lower = its_best < best ? its_best : best;
    second = max_of(lower, max_of(second, its_second));
    best = max_of(best, its_best);
  }
  FoldedTile found = {-1, -1, 0, 0, 0, 0};
  if (best != 0) found.best = column_of(best), found.best_logit = values[found.best];
  if (second != 0) found.second = column_of(second), found.second_logit = values[found.second];
  float sum = 0, weighted = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    float t = (own[i] - found.best_logit) * 1.44269504F, power;
    exp2_of(t, power);
    sum += power;
    weighted = fmaf(t, power, weighted);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
    weighted += __shfl_xor_sync(~0u, weighted, distance);
  }
  if (best != 0) found.sum = sum, found.weighted = weighted;
  if (lane == 0 && tile < tiles) out[int64_t{blockIdx.x} * tiles + tile] = found;
}

}  // namespace

void fold_tiles(cudaStream_t stream, const Matrix& logits, const Matrix& adjusted, const FoldCall* calls, int32_t n,
                FoldedTile* out) {
  const int32_t tiles = (logits.cols + kFoldedColumns - 1) / kFoldedColumns;
  start(stream, {dim3(static_cast<unsigned>(n), blocks_for(tiles, kTiles)), kThreads}, fold_kernel, logits, adjusted, calls, tiles, out);
}

}  // namespace ashlar::cuda
