// Row-wise operations. A row belongs to a block of threads that reduces in a fixed order, so rows are independent.

#include <math_constants.h>

#include "device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;

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

__global__ void __launch_bounds__(kThreads) embed_kernel(const void* table, bool is_f32, int32_t n, int32_t k_padded,
                                                         const int32_t* ids, float scale, Matrix out) {
  const int32_t id = ids[blockIdx.x];
  if (id < 0 || id >= n) __trap();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < out.cols; i += kThreads) {
    const int64_t at = is_f32 ? int64_t{id} * out.cols + i : packed_place(id, i, k_padded);
    store(out.data, blockIdx.x * out.stride + i, out.is_f32, load(table, at, is_f32) * scale);
  }
}

__global__ void __launch_bounds__(kThreads) rms_norm_kernel(Matrix x, const float* weight, float eps, Matrix out) {
  const int64_t from = blockIdx.x * x.stride;
  float sum = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols; i += kThreads) {
    const float value = load(x.data, from + i, x.is_f32);
    sum = fmaf(value, value, sum);
  }
  const float scale = 1.0F / sqrtf(block_sum(sum) / static_cast<float>(x.cols) + eps);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols; i += kThreads) {
    const float value = load(x.data, from + i, x.is_f32) * scale * weight[i];
    store(out.data, blockIdx.x * out.stride + i, out.is_f32, value);
  }
}

__global__ void __launch_bounds__(kThreads) add_kernel(Matrix partial, Matrix residual) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < residual.cols; i += kThreads) {
    const int64_t at = blockIdx.x * residual.stride + i;
    const float more = load(partial.data, blockIdx.x * partial.stride + i, partial.is_f32);
    store(residual.data, at, residual.is_f32, load(residual.data, at, residual.is_f32) + more);
  }
}

__global__ void __launch_bounds__(kThreads) softcap_kernel(Matrix x, float limit) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols; i += kThreads) {
    const int64_t at = blockIdx.x * x.stride + i;
    store(x.data, at, x.is_f32, limit * tanhf(load(x.data, at, x.is_f32) / limit));
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads) gather_kernel(Matrix x, const int32_t* indices, Matrix out) {
  const int64_t row = indices != nullptr ? indices[blockIdx.x] : blockIdx.x;
  const auto* const from = static_cast<const Element*>(x.data) + row * x.stride;
  auto* const to = static_cast<Element*>(out.data) + blockIdx.x * out.stride;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < out.cols; i += kThreads) to[i] = from[i];
}

__device__ void keep_better(float& value, int32_t& id, float other, int32_t other_id) {
  if (other_id < 0 || (id >= 0 && (other < value || (other == value && other_id > id)))) return;
  value = other;
  id = other_id;
}

__global__ void __launch_bounds__(kThreads) argmax_kernel(Matrix logits, int32_t* ids) {
  __shared__ float values[kThreads / 32];
  __shared__ int32_t bests[kThreads / 32];
  const auto* const row = static_cast<const float*>(logits.data) + blockIdx.x * logits.stride;
  float value = -CUDART_INF_F;
  int32_t id = -1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < logits.cols; i += kThreads) {
    if (row[i] > value) value = row[i], id = i;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(~0u, value, distance);
    keep_better(value, id, other, __shfl_xor_sync(~0u, id, distance));
  }
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value, bests[threadIdx.x / 32] = id;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kThreads / 32; ++w) keep_better(value, id, values[w], bests[w]);
  ids[blockIdx.x] = id;
}

__global__ void visibility_kernel(const __grid_constant__ VisibilityCall call) {
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

void embed(cudaStream_t stream, const void* table, bool is_f32, int32_t n, int32_t k_padded, const int32_t* ids,
           float scale, const Matrix& out) {
  embed_kernel<<<out.rows, kThreads, 0, stream>>>(table, is_f32, n, k_padded, ids, scale, out);
}

void rms_norm(cudaStream_t stream, const Matrix& x, const float* weight, float eps, const Matrix& out) {
  rms_norm_kernel<<<x.rows, kThreads, 0, stream>>>(x, weight, eps, out);
}

void add(cudaStream_t stream, const Matrix& partial, const Matrix& residual) {
  add_kernel<<<residual.rows, kThreads, 0, stream>>>(partial, residual);
}

void softcap(cudaStream_t stream, const Matrix& x, float limit) {
  softcap_kernel<<<x.rows, kThreads, 0, stream>>>(x, limit);
}

void gather(cudaStream_t stream, const Matrix& x, const int32_t* indices, const Matrix& out) {
  if (x.is_f32) {
    gather_kernel<float><<<out.rows, kThreads, 0, stream>>>(x, indices, out);
  } else {
    gather_kernel<uint16_t><<<out.rows, kThreads, 0, stream>>>(x, indices, out);
  }
}

void argmax(cudaStream_t stream, const Matrix& logits, int32_t* ids) {
  argmax_kernel<<<logits.rows, kThreads, 0, stream>>>(logits, ids);
}

void visibility(cudaStream_t stream, const VisibilityCall& call) {
  visibility_kernel<<<blocks_for(call.rows, kThreads), kThreads, 0, stream>>>(call);
}

}  // namespace ashlar::cuda
