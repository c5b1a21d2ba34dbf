// SPDX-License-Identifier: Apache-2.0
// Row-wise operations. A row belongs to a block of threads that reduces in a fixed order, so rows are independent.

#include "device_math.cuh"
#include "quantised.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int32_t kCopied = 2 * kThreads;  // elements of a row that a block copies

/// Sum over the block, the same in every thread: lanes by shuffles, then the warps in ascending order.
__device__ float block_sum(float value) {
  __shared__ float sums[kThreads / 32];
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = sums[0];
  for (int w = 1; w < kThreads / 32; ++w) value += sums[w];
  return value;
}

__global__ void __launch_bounds__(kThreads) embed_kernel(const void* table, Packed format, int32_t n, int32_t k_padded,
                                                         const int32_t* ids, float scale, Matrix out) {
  begin_kernel();
  const int32_t id = ids[blockIdx.x];
  if (id < 0 || id >= n) __trap();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < out.cols; i += kThreads) {
    float value;
    if (is_quantised(format)) {
      value = quantised_value(static_cast<const char*>(table), format, id, i, k_padded);
    } else {
      const bool is_f32 = format == Packed::kF32;
      value = load(table, is_f32 ? int64_t{id} * out.cols + i : packed_place(id, i, k_padded), is_f32);
    }
    store(out.data, blockIdx.x * out.stride + i, out.is_f32, value * scale);
  }
}

/// Eight columns from `first` on, those beyond `cols` as zeros.
__device__ __forceinline__ void load_eight(const Matrix& x, int64_t row, int32_t first, bool whole, float (&to)[8]) {
  const int64_t at = row * x.stride + first;
  if (whole) {
    const uint4 packed = *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(x.data) + at);
    const auto* const pairs = reinterpret_cast<const __nv_bfloat162*>(&packed);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 two = __bfloat1622float2(pairs[p]);
      to[2 * p] = two.x, to[2 * p + 1] = two.y;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = first + i < x.cols ? load(x.data, at + i, x.is_f32) : 0.0F;
}

__device__ __forceinline__ void store_eight(const Matrix& x, int64_t row, int32_t first, bool whole,
                                            const float (&from)[8]) {
  const int64_t at = row * x.stride + first;
  if (whole) {
    __nv_bfloat162 pairs[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) pairs[p] = __floats2bfloat162_rn(from[2 * p], from[2 * p + 1]);
    *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(x.data) + at) = *reinterpret_cast<const uint4*>(pairs);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (first + i < x.cols) store(x.data, at + i, x.is_f32, from[i]);
  }
}

/// Thread t has columns 8 t to 8 t + 7, and those further on by multiples of 8 kThreads, kPieces times: its squares are
/// one chain in that order. The row stays in registers. `whole_x`, `whole_out`: rows may be read and written by 16
/// bytes.
template <int kPieces>
__global__ void __launch_bounds__(kThreads)
    rms_norm_kernel(Matrix x, const float* weight, float eps, Matrix out, bool whole_x, bool whole_out) {
  float weights[kPieces][8], values[kPieces][8];
  let_successor_start();
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int32_t first = 8 * (p * kThreads + static_cast<int32_t>(threadIdx.x));
#pragma unroll
    for (int i = 0; i < 8; ++i) weights[p][i] = first + i < x.cols ? weight[first + i] : 0.0F;
  }
  wait_for_predecessors();
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int32_t first = 8 * (p * kThreads + static_cast<int32_t>(threadIdx.x));
    load_eight(x, blockIdx.x, first, whole_x && first + 8 <= x.cols, values[p]);
  }
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(values[p][i], values[p][i], sum);
  }
  const float scale = 1.0F / sqrtf(block_sum(sum) / static_cast<float>(x.cols) + eps);
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int32_t first = 8 * (p * kThreads + static_cast<int32_t>(threadIdx.x));
#pragma unroll
    for (int i = 0; i < 8; ++i) values[p][i] = values[p][i] * scale * weights[p][i];
    store_eight(out, blockIdx.x, first, whole_out && first + 8 <= x.cols, values[p]);
  }
}

__global__ void __launch_bounds__(kThreads) add_kernel(Matrix partial, Matrix residual) {
  begin_kernel();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < residual.cols; i += kThreads) {
    const int64_t at = blockIdx.x * residual.stride + i;
    const float more = load(partial.data, blockIdx.x * partial.stride + i, partial.is_f32);
    store(residual.data, at, residual.is_f32, load(residual.data, at, residual.is_f32) + more);
  }
}

__global__ void __launch_bounds__(kThreads) scale_kernel(Matrix x, float factor) {
  begin_kernel();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols; i += kThreads) {
    const int64_t at = blockIdx.x * x.stride + i;
    store(x.data, at, x.is_f32, load(x.data, at, x.is_f32) * factor);
  }
}

__global__ void __launch_bounds__(kThreads) softcap_kernel(Matrix x, float limit) {
  begin_kernel();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols; i += kThreads) {
    const int64_t at = blockIdx.x * x.stride + i;
    store(x.data, at, x.is_f32, limit * tanhf(load(x.data, at, x.is_f32) / limit));
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(Matrix x, const int32_t* from, const int32_t* to, Matrix out) {
  begin_kernel();
  const int64_t row = from != nullptr ? from[blockIdx.x] : blockIdx.x;
  const int64_t out_row = to != nullptr ? to[blockIdx.x] : blockIdx.x;
  const auto* const read = static_cast<const Element*>(x.data) + row * x.stride;
  auto* const written = static_cast<Element*>(out.data) + out_row * out.stride;
  const auto first = static_cast<int32_t>(blockIdx.y) * kCopied + static_cast<int32_t>(threadIdx.x);
  Element values[kCopied / kThreads];  // all on their way at once
#pragma unroll
  for (int32_t i = 0; i < kCopied / kThreads; ++i) {
    if (first + i * kThreads < out.cols) values[i] = read[first + i * kThreads];
  }
#pragma unroll
  for (int32_t i = 0; i < kCopied / kThreads; ++i) {
    if (first + i * kThreads < out.cols) written[first + i * kThreads] = values[i];
  }
}

__global__ void visibility_kernel(const __grid_constant__ VisibilityCall call) {
  begin_kernel();
  const int32_t r = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= call.rows) return;
  const int32_t position = call.positions[r];
  const bool without_kv = call.without_kv != nullptr && call.without_kv[r] != 0;
  int32_t begin = call.first_keys[call.tables[r]];
  int32_t end = call.causal && !without_kv ? position + 1 : call.block_ends[r];
  if (call.window != 0) {
    begin = max(begin, position - call.window + 1);
    end = min(end, position + call.window);
  }
  call.begin[r] = begin;
  call.end[r] = end;
}

}  // namespace

void embed(cudaStream_t stream, const void* table, Packed format, int32_t n, int32_t k_padded, const int32_t* ids,
           float scale, const Matrix& out) {
  start(stream, {rows_of(out), kThreads}, embed_kernel, table, format, n, k_padded, ids, scale, out);
}

void rms_norm(cudaStream_t stream, const Matrix& x, const float* weight, float eps, const Matrix& out) {
  const auto whole = [](const Matrix& m) {
    return !m.is_f32 && reinterpret_cast<uintptr_t>(m.data) % 16 == 0 && m.stride % 8 == 0;
  };
  const auto with = [&](auto* kernel) {
    start(stream, {rows_of(x), kThreads}, kernel, x, weight, eps, out, whole(x), whole(out));
  };
  constexpr int32_t kPiece = 8 * kThreads;
  if (x.cols <= kPiece) return with(rms_norm_kernel<1>);
  if (x.cols <= 2 * kPiece) return with(rms_norm_kernel<2>);
  if (x.cols <= 4 * kPiece) return with(rms_norm_kernel<4>);
  with(rms_norm_kernel<kMaxNormed / kPiece>);
}

void add(cudaStream_t stream, const Matrix& partial, const Matrix& residual) {
  start(stream, {rows_of(residual), kThreads}, add_kernel, partial, residual);
}

void scale(cudaStream_t stream, const Matrix& x, float factor) {
  start(stream, {rows_of(x), kThreads}, scale_kernel, x, factor);
}

void softcap(cudaStream_t stream, const Matrix& x, float limit) {
  start(stream, {rows_of(x), kThreads}, softcap_kernel, x, limit);
}

void copy_rows(cudaStream_t stream, const Matrix& x, const int32_t* from, const int32_t* to, const Matrix& out) {
  const int32_t size = x.is_f32 ? 4 : 2;
  const auto with = [&](auto* kernel, int32_t elements) {  // of those that the matrices have, in one of the kernel's
    const auto of = [elements](Matrix m) {
      m.cols /= elements;
      m.stride /= elements;
      return m;
    };
    const auto parts = blocks_for(out.cols / elements, kCopied);
    start(stream, {dim3(rows_of(out), parts), kThreads}, kernel, of(x), from, to, of(out));
  };
  const auto whole = [&](const Matrix& m) {
    return reinterpret_cast<uintptr_t>(m.data) % 16 == 0 && m.stride * size % 16 == 0;
  };
  if (whole(x) && whole(out) && out.cols * size % 16 == 0) return with(copy_rows_kernel<uint4>, 16 / size);
  with(x.is_f32 ? copy_rows_kernel<float> : copy_rows_kernel<uint16_t>, 1);
}

void visibility(cudaStream_t stream, const VisibilityCall& call) {
  start(stream, {blocks_for(call.rows, kThreads), kThreads}, visibility_kernel, call);
}

}  // namespace ashlar::cuda
