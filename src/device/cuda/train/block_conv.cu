// SPDX-License-Identifier: Apache-2.0
// Grouped convolutions along the rows of blocks, and their gradients. Neighbouring threads have neighbouring channels,
// four each where groups allow.

#include "train_kernels.h"
#include "train_values.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

constexpr int kWarps = kThreads / 32;

__device__ __forceinline__ float value_of(const Matrix& x, int64_t r, int32_t c) {
  return load(x.data, r * x.stride + c, x.is_f32);
}

__device__ __forceinline__ float weight_of(const TrainConv& call, int64_t r, int32_t t, int32_t c) {
  const int32_t groups = call.x.cols / call.group;
  return call.base[int64_t{t} * call.x.cols + c] + value_of(call.dynamic, r, t * groups + c / call.group);
}

/// Taps of row r: fewer at the beginning of its block.
__device__ __forceinline__ int32_t taps_of(const TrainConv& call, int32_t r) {
  return min(call.taps, r % call.block + 1);
}

/// The base's weights as they are: [taps, channels].
__device__ __forceinline__ Matrix base_of(const TrainConv& call) {
  return {const_cast<float*>(call.base), call.taps, call.x.cols, call.x.cols, true};
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads) conv_kernel(TrainConv call, Matrix out, bool add) {
  const Matrix base = base_of(call);
  const int32_t groups = call.x.cols / call.group;
  for_groups<kWidth>(out, [&](uint32_t row, int32_t place) {
    const auto r = static_cast<int32_t>(row);
    const int32_t group = place * kWidth / call.group, taps = taps_of(call, r);
    Values<kWidth> sum = {};
    if (add) sum = read<kWidth>(out, r, place);
#pragma unroll 2
    for (int32_t t = 0; t < taps; ++t) {
      const float own = value_of(call.dynamic, r, t * groups + group);
      const Values<kWidth> x = read<kWidth>(call.x, r - t, place), shared = read<kWidth>(base, t, place);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum.v[i] = fmaf(shared.v[i] + own, x.v[i], sum.v[i]);
    }
    write(out, r, place, sum);
  });
}

__global__ void __launch_bounds__(kThreads) conv_x_kernel(TrainConv call, Matrix d_out, Matrix d_x) {
  for_groups<1>(d_x, [&](uint32_t row, int32_t c) {
    const auto r = static_cast<int32_t>(row);
    float sum = 0;
    for (int32_t t = 0; t < call.taps && r + t < d_x.rows && taps_of(call, r + t) > t; ++t) {
      sum = fmaf(weight_of(call, int64_t{r} + t, t, c), value_of(d_out, int64_t{r} + t, c), sum);
    }
    store(d_x.data, r * d_x.stride + c, d_x.is_f32, sum);
  });
}

/// A thread a tap and group of a row.
__global__ void __launch_bounds__(kThreads) conv_dynamic_kernel(TrainConv call, Matrix d_out, Matrix d_dynamic) {
  const int32_t groups = call.x.cols / call.group;
  for_groups<1>(d_dynamic, [&](uint32_t row, int32_t place) {
    const auto r = static_cast<int32_t>(row);
    const int32_t t = place / groups, first = place % groups * call.group;
    float sum = 0;
    if (t < taps_of(call, r)) {
      for (int32_t c = first; c < first + call.group; ++c) {
        sum = fmaf(value_of(d_out, r, c), value_of(call.x, int64_t{r} - t, c), sum);
      }
    }
    store(d_dynamic.data, r * d_dynamic.stride + place, d_dynamic.is_f32, sum);
  });
}

/// Block (i, j, t): of tap t the channels [i * kThreads, ...), over the rows [j * rows, ...).
__global__ void __launch_bounds__(kThreads)
    conv_base_kernel(TrainConv call, Matrix d_out, int32_t rows, float* partials) {
  const auto c = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (c >= d_out.cols) return;
  const auto t = static_cast<int32_t>(blockIdx.z), first = static_cast<int32_t>(blockIdx.y) * rows;
  float sum = 0;
#pragma unroll 4
  for (int32_t r = first; r < min(first + rows, d_out.rows); ++r) {
    if (t < taps_of(call, r)) sum = fmaf(value_of(d_out, r, c), value_of(call.x, int64_t{r} - t, c), sum);
  }
  partials[(int64_t{blockIdx.y} * call.taps + t) * d_out.cols + c] = sum;
}

/// All three gradients of two taps, four channels a thread, which goes down `rows` rows, whole blocks of them, and so
/// reads everything once. The threads of a group are neighbours in a warp.
__global__ void __launch_bounds__(kThreads) conv_pair_gradient_kernel(TrainConv call, Matrix d_out, Matrix d_x,
                                                                      Matrix d_dynamic, int32_t rows, float* partials) {
  constexpr int kAhead = 4;  // rows that are on their way at once
  const int32_t fours = call.x.cols / 4, groups = call.x.cols / call.group, lanes = call.group / 4;
  const auto thread = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  const int32_t part = thread / fours, four = thread % fours, group = four / lanes;
  const int32_t first = part * rows, last = min(first + rows, d_out.rows);
  if (first >= last) return;  // with the whole group, as groups do not go over the border of parts
  const unsigned of_group = (lanes == 32 ? ~0U : (1U << lanes) - 1) << (threadIdx.x % 32 / lanes * lanes);
  const Matrix base = base_of(call);
  const Values<4> base_now = read<4>(base, 0, four), base_before = read<4>(base, 1, four);
  Values<4> sum_now = {}, sum_before = {}, before = {}, pending = {};  // pending: d_x of the row before
  for (int32_t next = first; next < last; next += kAhead) {
    Values<4> d[kAhead], x[kAhead];
    float own_now[kAhead], own_before[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t r = min(next + i, last - 1);
      d[i] = read<4>(d_out, r, four), x[i] = read<4>(call.x, r, four);
      own_now[i] = value_of(call.dynamic, r, group), own_before[i] = value_of(call.dynamic, r, groups + group);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t r = next + i;
      if (r >= last) break;
      const bool begins = r % call.block == 0;
      if (begins) before = {};
      float of_now = 0, of_before = 0;
      Values<4> d_now;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float to = d[i].v[c];
        of_now = fmaf(to, x[i].v[c], of_now), of_before = fmaf(to, before.v[c], of_before);
        sum_now.v[c] = fmaf(to, x[i].v[c], sum_now.v[c]), sum_before.v[c] = fmaf(to, before.v[c], sum_before.v[c]);
        if (!begins) pending.v[c] = fmaf(base_before.v[c] + own_before[i], to, pending.v[c]);
        d_now.v[c] = (base_now.v[c] + own_now[i]) * to;
      }
      if (r > first) write(d_x, r - 1, four, pending);
      pending = d_now, before = x[i];
      for (int distance = lanes / 2; distance > 0; distance /= 2) {
        of_now += __shfl_xor_sync(of_group, of_now, distance);
        of_before += __shfl_xor_sync(of_group, of_before, distance);
      }
      if (four % lanes != 0) continue;
      const int64_t at = r * d_dynamic.stride + group;
      store(d_dynamic.data, at, d_dynamic.is_f32, of_now);
      store(d_dynamic.data, at + groups, d_dynamic.is_f32, of_before);
    }
  }
  write(d_x, last - 1, four, pending);
  const Matrix sums = {partials + int64_t{part} * 2 * d_out.cols, 2, d_out.cols, d_out.cols, true};
  write(sums, 0, four, sum_now);
  write(sums, 1, four, sum_before);
}

/// Block i: values [32 i, ...), whose partial sums each warp adds up a part of.
__global__ void __launch_bounds__(kThreads)
    add_partials_kernel(const float* partials, int32_t n_partials, int32_t n, float* out) {
  __shared__ float sums[kWarps][32];
  const auto lane = static_cast<int32_t>(threadIdx.x % 32), warp = static_cast<int32_t>(threadIdx.x / 32);
  const int32_t i = static_cast<int32_t>(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (i < n) {
#pragma unroll 8
    for (int32_t p = warp; p < n_partials; p += kWarps) sum += partials[int64_t{p} * n + i];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || i >= n) return;
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane];
  out[i] += sum;
}

/// Whether threads of four channels have whole groups.
bool has_whole_groups(const TrainConv& call) {
  return call.group % 4 == 0 && takes_four(call.x) && reinterpret_cast<uintptr_t>(call.base) % 16 == 0;
}

bool takes_pairs(const TrainConv& call, const Matrix& d_out, const Matrix& d_x) {
  const int32_t lanes = call.group / 4;
  return call.taps == 2 && has_whole_groups(call) && lanes <= 32 && (lanes & (lanes - 1)) == 0 && takes_four(d_out) &&
         takes_four(d_x);
}

}  // namespace
}  // namespace train

using namespace train;

void train_block_conv(cudaStream_t stream, const TrainConv& call, bool add, const Matrix& out) {
  if (has_whole_groups(call) && takes_four(out)) {
    conv_kernel<4><<<blocks_for_groups(groups_of(out, 4)), kThreads, 0, stream>>>(call, out, add);
  } else {
    conv_kernel<1><<<blocks_for_groups(groups_of(out, 1)), kThreads, 0, stream>>>(call, out, add);
  }
}

void train_block_conv_gradient(cudaStream_t stream, const TrainConv& call, const Matrix& d_out, const Matrix& d_x,
                               const Matrix& d_dynamic, float* d_base, float* partials) {
  const int32_t n = call.taps * d_x.cols;
  const int32_t least = (d_x.rows + kConvPartials - 1) / kConvPartials;
  const int32_t rows = (least + call.block - 1) / call.block * call.block;
  const int32_t parts = (d_x.rows + rows - 1) / rows;
  if (takes_pairs(call, d_out, d_x)) {
    conv_pair_gradient_kernel<<<blocks_for(parts * (d_x.cols / 4), kThreads), kThreads, 0, stream>>>(
        call, d_out, d_x, d_dynamic, rows, partials);
  } else {
    conv_x_kernel<<<blocks_for_groups(groups_of(d_x, 1)), kThreads, 0, stream>>>(call, d_out, d_x);
    conv_dynamic_kernel<<<blocks_for_groups(groups_of(d_dynamic, 1)), kThreads, 0, stream>>>(call, d_out, d_dynamic);
    const dim3 blocks(blocks_for(d_x.cols, kThreads), static_cast<unsigned>(parts), static_cast<unsigned>(call.taps));
    conv_base_kernel<<<blocks, kThreads, 0, stream>>>(call, d_out, rows, partials);
  }
  add_partials_kernel<<<blocks_for(n, 32), kThreads, 0, stream>>>(partials, parts, n, d_base);
}

}  // namespace ashlar::cuda
