// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values are finished and stored: a warp has a head of a row, or some heads where there are many
// rows. Either way lane l has elements l, l + 32, ... of a head, whose squares it adds up in this order.

#include "kv_numbers.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 512;  ///< as device/rows.h has it
/// Heads of a warp where there are many rows, and how many heads of rows that are.
constexpr int kTogether = 4;
constexpr int64_t kManyHeads = 8192;

/// Where a head of keys or values of a row is kept; page null: nowhere, as those of a row without KV and queries.
__device__ __forceinline__ KvPlace place_of(const HeadsCall& heads, int32_t row, int32_t head, int32_t position) {
  if (head < heads.q_heads || (heads.without_kv != nullptr && heads.without_kv[row] != 0)) return {nullptr, 0};
  const int32_t slot = heads.scratch_slots != nullptr ? heads.scratch_slots[row] : -1;
  return slot >= 0 ? in_scratch(heads, slot) : in_pages(heads, heads.page_tables[heads.tables[row]], position);
}

/// What a head of queries is multiplied by once it is rotated; 1 of keys, which are stored as they were.
__device__ __forceinline__ float query_scale(const StoreCall& call, int32_t head, int32_t position) {
  return head < call.heads.q_heads && call.query_scales != nullptr ? call.query_scales[position] : 1.0F;
}

template <class Format>
__global__ void __launch_bounds__(32 * kWarps) store_kernel(const __grid_constant__ StoreCall call) {
  __shared__ float numbers[kWarps][kMaxHeadDim];
  constexpr int kPairs = kMaxHeadDim / 64;  // of a lane, that are turned
  let_successor_start();
  const HeadsCall& heads = call.heads;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t n_heads = heads.q_heads + 2 * heads.n_kv_heads;
  const int64_t index = int64_t{blockIdx.x} * kWarps + warp;
  if (index >= int64_t{heads.rows} * n_heads) return wait_for_predecessors();
  const auto row = static_cast<int32_t>(index / n_heads), head = static_cast<int32_t>(index % n_heads);
  const int32_t d = heads.head_dim, position = heads.positions[row];
  const bool is_value = head >= heads.q_heads + heads.n_kv_heads;
  auto* const at = static_cast<__nv_bfloat16*>(heads.qkv) + row * heads.stride + int64_t{head} * d;
  // Where a row goes and how far it is turned was uploaded, and no kernel writes it.
  const KvPlace to = place_of(heads, row, head, position);
  const int32_t half = call.rotary_dim / 2;
  float cos[kPairs], sin[kPairs];
  if (!is_value) {
    if (position < 0 || position >= call.max_position) __trap();
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int32_t i = lane + 32 * j;
      if (i >= half) break;
      cos[j] = call.cos[int64_t{position} * half + i], sin[j] = call.sin[int64_t{position} * half + i];
    }
  }
  wait_for_predecessors();
  float* const x = numbers[warp];
  for (int32_t i = lane; i < d; i += 32) x[i] = __bfloat162float(at[i]);
  __syncwarp();
  if (!is_value) {
    const float* const norm = head < heads.q_heads ? call.q_norm : call.k_norm;
    if (norm != nullptr) {
      float sum = 0;
      for (int32_t i = lane; i < d; i += 32) sum = fmaf(x[i], x[i], sum);
      const float scale = 1.0F / sqrtf(warp_sum(sum) / static_cast<float>(d) + call.eps);
      for (int32_t i = lane; i < d; i += 32) x[i] = x[i] * scale * norm[i];
      __syncwarp();
    }
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int32_t i = lane + 32 * j;
      if (i >= half) break;
      const float a = x[i], b = x[i + half];
      x[i] = a * cos[j] - b * sin[j];
      x[i + half] = b * cos[j] + a * sin[j];
    }
    __syncwarp();
    const float scale = query_scale(call, head, position);
    for (int32_t i = lane; i < d; i += 32) at[i] = __float2bfloat16_rn(x[i] * scale);
  }
  if (to.page == nullptr) return;
  Format::template keep<kMaxHeadDim / 32>(heads, to, (head - heads.q_heads) % heads.n_kv_heads, is_value,
                                          [&](int j) { return x[lane + 32 * j]; });
}

/// The same for head_dim = rotary_dim = 32 * kMine: what is turned together lies in one lane, and the loads of several
/// heads are on their way at a time.
template <int kMine, class Format>
__global__ void __launch_bounds__(32 * kWarps) store_together_kernel(const __grid_constant__ StoreCall call) {
  constexpr int32_t kDim = 32 * kMine;
  begin_kernel();
  const HeadsCall& heads = call.heads;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t n_heads = heads.q_heads + 2 * heads.n_kv_heads, parts = (n_heads + kTogether - 1) / kTogether;
  const int64_t index = int64_t{blockIdx.x} * kWarps + warp;
  if (index >= int64_t{heads.rows} * parts) return;
  const auto row = static_cast<int32_t>(index / parts), first = static_cast<int32_t>(index % parts) * kTogether;
  const int32_t position = heads.positions[row], values = heads.q_heads + heads.n_kv_heads;
  auto* const at = static_cast<__nv_bfloat16*>(heads.qkv) + row * heads.stride + int64_t{first} * kDim + lane;
  float x[kTogether][kMine];
#pragma unroll
  for (int n = 0; n < kTogether; ++n) {
    if (first + n >= n_heads) break;
#pragma unroll
    for (int j = 0; j < kMine; ++j) x[n][j] = __bfloat162float(at[n * kDim + 32 * j]);
  }
  float cos[kMine / 2], sin[kMine / 2];
  if (first < values) {
    if (position < 0 || position >= call.max_position) __trap();
#pragma unroll
    for (int j = 0; j < kMine / 2; ++j) {
      cos[j] = call.cos[int64_t{position} * (kDim / 2) + 32 * j + lane];
      sin[j] = call.sin[int64_t{position} * (kDim / 2) + 32 * j + lane];
    }
  }
#pragma unroll
  for (int n = 0; n < kTogether; ++n) {
    const int32_t head = first + n;
    if (head >= n_heads) return;
    if (head < values) {
      const float* const norm = head < heads.q_heads ? call.q_norm : call.k_norm;
      if (norm != nullptr) {
        float sum = 0;
#pragma unroll
        for (float value : x[n]) sum = fmaf(value, value, sum);
        const float scale = 1.0F / sqrtf(warp_sum(sum) / static_cast<float>(kDim) + call.eps);
#pragma unroll
        for (int j = 0; j < kMine; ++j) x[n][j] = x[n][j] * scale * norm[32 * j + lane];
      }
#pragma unroll
      for (int j = 0; j < kMine / 2; ++j) {
        const float a = x[n][j], b = x[n][j + kMine / 2];
        x[n][j] = a * cos[j] - b * sin[j];
        x[n][j + kMine / 2] = b * cos[j] + a * sin[j];
      }
      const float query = query_scale(call, head, position);
#pragma unroll
      for (int j = 0; j < kMine; ++j) at[n * kDim + 32 * j] = __float2bfloat16_rn(x[n][j] * query);
    }
    const KvPlace to = place_of(heads, row, head, position);
    if (to.page == nullptr) continue;
    Format::template keep<kMine>(heads, to, (head - heads.q_heads) % heads.n_kv_heads, head >= values,
                                 [&](int j) { return x[n][j]; });
  }
}

template <class Format>
__global__ void commit_kernel(const __grid_constant__ HeadsCall heads, Branch branch, const int32_t* page_table) {
  begin_kernel();
  const auto i = static_cast<int32_t>(blockIdx.x), kv_head = static_cast<int32_t>(blockIdx.y);
  const KvPlace from = in_scratch(heads, branch.slots[i]), to = in_pages(heads, page_table, branch.first + i);
  Format::copy(heads, from, to, kv_head);
}

template <class Format>
void store_as(cudaStream_t stream, const StoreCall& call) {
  const int32_t n_heads = call.heads.q_heads + 2 * call.heads.n_kv_heads, d = call.heads.head_dim;
  const int64_t heads = int64_t{call.heads.rows} * n_heads;
  if (heads >= kManyHeads && call.rotary_dim == d && (d == 64 || d == 128)) {
    const Blocks blocks = {blocks_for(call.heads.rows * blocks_for(n_heads, kTogether), kWarps), 32 * kWarps};
    d == 64 ? start(stream, blocks, store_together_kernel<2, Format>, call)
            : start(stream, blocks, store_together_kernel<4, Format>, call);
    return;
  }
  start(stream, {blocks_for(heads, kWarps), 32 * kWarps}, store_kernel<Format>, call);
}

}  // namespace

int64_t kv_page_bytes(KvNumbers numbers, int32_t n_kv_heads, int32_t head_dim) {
  int64_t bytes = 0;
  with_format(numbers, [&](auto format) { bytes = decltype(format)::page_bytes(n_kv_heads, head_dim); });
  return bytes;
}

void store_kv(cudaStream_t stream, const StoreCall& call) {
  with_format(call.heads.numbers, [&](auto format) { store_as<decltype(format)>(stream, call); });
}

void commit_kv(cudaStream_t stream, const HeadsCall& heads, const Branch& branch, const int32_t* page_table) {
  const dim3 grid(static_cast<unsigned>(branch.n), static_cast<unsigned>(heads.n_kv_heads));
  with_format(heads.numbers, [&](auto format) {
    start(stream, {grid, 64}, commit_kernel<decltype(format)>, heads, branch, page_table);
  });
}

}  // namespace ashlar::cuda
