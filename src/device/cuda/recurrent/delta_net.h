// SPDX-License-Identifier: Apache-2.0
#pragma once
// A gated delta net on the GPU (device/delta_net.h says how its states are laid out). What a row adds depends on the
// row before through the state alone, so three kernels share the work: prepare_rows() has all rows at once, scan_rows()
// goes through the rows of a sequence with the columns of a matrix in registers, finish_rows() has all
// rows at once again. Between them a row is numbers of its own in memory, PreparedRow.

#include "device/cuda/kernels.h"
#include "device/cuda/recurrent/state_rows.h"

namespace ashlar::cuda {

/// What a row is between the kernels of a call, in floats: queries and keys of each key head, as they are used and
/// followed by zeros up to k_pad; then values of each value head, v_pad apart, which scan_rows() replaces by answers;
/// then four numbers of each value head: by what the state is multiplied, what the row's addition is multiplied by, the
/// product of key and query, and nothing. All begin at multiples of 16 bytes.
struct PreparedRow {
  int32_t n_k_heads, n_v_heads, k_pad, v_pad;

  __host__ __device__ int64_t queries(int32_t k_head) const { return int64_t{k_head} * 2 * k_pad; }
  __host__ __device__ int64_t keys(int32_t k_head) const { return queries(k_head) + k_pad; }
  __host__ __device__ int64_t values(int32_t v_head) const { return queries(n_k_heads) + int64_t{v_head} * v_pad; }
  __host__ __device__ int64_t gates(int32_t v_head) const { return values(n_v_heads) + int64_t{v_head} * 4; }
  __host__ __device__ int64_t floats() const { return gates(n_v_heads); }
};

struct DeltaNetCall : StateRows {
  Matrix in, out;
  int32_t n_k_heads = 0, n_v_heads = 0, k_dim = 0, v_dim = 0, taps = 0, channels = 0;
  const float *tap_weights = nullptr, *decay = nullptr, *bias = nullptr, *norm = nullptr;
  float eps = 0;
  bool outputs_by_turns = false;
  float* prepared = nullptr;   ///< [rows, prepared_row().floats()]
  int32_t* log_row = nullptr;  ///< [rows]: which row of its slot's log a row becomes; -1: none

  /// scan_rows() has 8 or 32 lanes for a column, with 16 numbers each.
  __host__ __device__ PreparedRow prepared_row() const {
    return {n_k_heads, n_v_heads, k_dim <= 128 ? 128 : 512, (v_dim + 3) / 4 * 4};
  }
};
/// k_dim at most 512.
void delta_net(cudaStream_t stream, const DeltaNetCall& call);
// Its kernels, in this order.
void prepare_rows(cudaStream_t stream, const DeltaNetCall& call);
void scan_rows(cudaStream_t stream, const DeltaNetCall& call);
void finish_rows(cudaStream_t stream, const DeltaNetCall& call);

}  // namespace ashlar::cuda
