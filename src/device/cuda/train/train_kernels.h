// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels of training offer the host. Every function queues its work on the stream and returns; what it points
// to is device memory. A Matrix is of fp32 or bf16, and what is computed in between is fp32; sums have a fixed order,
// so the same call gives the same bits.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/kernels.h"

namespace ashlar::cuda {

void train_rms_norm(cudaStream_t stream, const Matrix& x, const float* weight, float eps, const Matrix& out);

/// Partial sums of d_weight: at most this many for each column.
inline constexpr int32_t kNormPartials = 528;
/// Widest row whose values the threads of a block have registers for.
inline constexpr int32_t kMaxNormColumns = 16384;
struct NormGradient {
  Matrix d_out, x, d_x;
  const float* weight = nullptr;
  float eps = 0;
  bool add = false;           ///< to d_x
  float* d_weight = nullptr;  ///< [cols], added to
  float* partials = nullptr;  ///< scratch [kNormPartials, cols]
};
void train_rms_norm_gradient(cudaStream_t stream, const NormGradient& call);

/// Angles [positions, head_dim / 2]; sign -1 rotates back.
void train_rope(cudaStream_t stream, const Matrix& x, int32_t head_dim, const float* cos, const float* sin,
                const int32_t* positions, float sign);

void train_silu_mul(cudaStream_t stream, const Matrix& gate, const Matrix& up, const Matrix& out);
void train_silu_mul_gradient(cudaStream_t stream, const Matrix& d_out, const Matrix& gate, const Matrix& up,
                             const Matrix& d_gate, const Matrix& d_up);
void train_sigmoid_mul(cudaStream_t stream, const Matrix& gate, const Matrix& x, const Matrix& out);
void train_sigmoid_mul_gradient(cudaStream_t stream, const Matrix& d_out, const Matrix& gate, const Matrix& x,
                                const Matrix& d_gate, const Matrix& d_x);

/// out[r] = scale * table[ids[r]].
void train_gather(cudaStream_t stream, const Matrix& table, const int32_t* ids, float scale, const Matrix& out);
/// out = x, each rounded to its own type.
void train_copy(cudaStream_t stream, const Matrix& x, const Matrix& out);
/// out[ids[r]] = rows[r] * scales[r], or that is added; other rows stay.
void train_scatter(cudaStream_t stream, const Matrix& rows, const int32_t* ids, const float* scales, bool add,
                   const Matrix& out);

/// One for each block: its context rows and where they begin.
struct TrainBlock {
  int32_t first = 0;
  int32_t n = 0;
};
struct TrainAttention {
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  int32_t block = 0, n_blocks = 0, context_rows = 0, window = 0;
  int32_t max_blocks = 0;  ///< of one document
  bool causal = false;
  const TrainBlock* blocks = nullptr;
  Matrix q, k, v, out, log_sums;
  Matrix d_out, d_q, d_k, d_v;
  float* means = nullptr;  ///< scratch [block rows, heads]: the products d_out out
  /// Scratch of partial_sums_of(): sums of each part of the queries, [parts, context rows, 2, kv_heads, head_dim].
  float* partial_sums = nullptr;
};
/// Numbers of `partial_sums`; 0: none are needed.
int64_t partial_sums_of(const TrainAttention& call);
/// Widest head that the kernels have registers for.
inline constexpr int32_t kMaxTrainHead = 256;
void train_attention(cudaStream_t stream, const TrainAttention& call);
void train_attention_gradient(cudaStream_t stream, const TrainAttention& call);

/// What is found out about a row of logits.
struct RowLoss {
  float loss = 0;
  float probability = 0;
  int32_t best = 0;
};
/// The likeliest columns of rows of logits, highest first: [rows, n] each, n at most 32; 0: not wanted.
struct RowCandidates {
  int32_t n = 0;
  int32_t* ids = nullptr;
  float* logits = nullptr;
};
/// Logits [rows, vocab] of fp32, whose stride is a multiple of 4 and whose rows begin at multiples of 16 bytes.
/// `gradient` of each row's loss takes their place, in fp32 or in bf16 at the same beginnings of rows; without rows:
/// not wanted.
void train_cross_entropy(cudaStream_t stream, const Matrix& logits, const int32_t* labels, const Matrix& gradient,
                         const RowCandidates& candidates, RowLoss* losses);

/// DistributionLoss of device/train_ops.h.
enum class RowDistance : uint8_t { kKl, kTv, kOverlap, kLk };
/// The same against the distributions of `target`, logits of the same shape; `probability` is the overlap.
void train_distribution_loss(cudaStream_t stream, const Matrix& logits, const Matrix& target, RowDistance distance,
                             const Matrix& gradient, const RowCandidates& candidates, RowLoss* losses);

/// BlockConvolution of device/train_heads.h.
struct TrainConv {
  Matrix x, dynamic;
  int32_t taps = 0, group = 0, block = 0;
  const float* base = nullptr;
};
void train_block_conv(cudaStream_t stream, const TrainConv& call, bool add, const Matrix& out);
/// Partial sums of d_base: at most this many for each value.
inline constexpr int32_t kConvPartials = 512;
/// partials: scratch [kConvPartials, taps, channels].
void train_block_conv_gradient(cudaStream_t stream, const TrainConv& call, const Matrix& d_out, const Matrix& d_x,
                               const Matrix& d_dynamic, float* d_base, float* partials);

/// ChoosingRows of device/train_heads.h; n is at most 32.
struct TrainCandidates {
  int32_t n = 0;
  int32_t* ids = nullptr;
  float* logits = nullptr;
  const int32_t *labels = nullptr, *before = nullptr;
  Matrix hidden, head, projected, predecessors, successors;
  float scale = 1;
};
struct TrainCandidateGradients {
  Matrix hidden, projected, before, after;  ///< fp32
};
void train_candidate_loss(cudaStream_t stream, const TrainCandidates& call, RowLoss* losses);
void train_candidate_gradient(cudaStream_t stream, const TrainCandidates& call, const float* weights,
                              const TrainCandidateGradients& out);

/// The sums of groups of entries, cut into parts of at most kEntriesOfPart: part p is factors[e] * rows[e / n] summed
/// over entries[begins[p], begins[p + 1]), in their order. table[ids[g]] += scale * the sum of parts [firsts[g],
/// firsts[g + 1]).
struct RowSums {
  int32_t groups = 0, parts = 0;
  const int32_t *ids = nullptr, *firsts = nullptr, *begins = nullptr, *entries = nullptr;
  const float* factors = nullptr;  ///< null: 1 each
  int32_t n = 1;
  float scale = 1;
  float* sums = nullptr;  ///< scratch [parts, cols]
};
inline constexpr int32_t kEntriesOfPart = 64;
void train_add_rows(cudaStream_t stream, const Matrix& rows, const RowSums& sums, const Matrix& table);

inline constexpr int32_t kSquaredPartials = 1024;
/// partials [kSquaredPartials]: their sum is that of the squares of n values.
void train_squares(cudaStream_t stream, const float* values, int64_t n, double* partials);
/// Divides each of n arrays of `count` values by its norm, or by `least`. partials [n, kSquaredPartials].
void train_normalise(cudaStream_t stream, float* values, int64_t count, int32_t n, float least, double* partials);
void train_scale(cudaStream_t stream, float* values, int64_t n, float factor);
void train_combine(cudaStream_t stream, float alpha, const float* x, float beta, const float* y, int64_t n, float* out);

struct TrainAdamW {
  float beta1 = 0, beta2 = 0, eps = 0;
  float step_size = 0;           ///< learning rate / (1 - beta1^step)
  float inverse_correction = 0;  ///< 1 / sqrt(1 - beta2^step)
  float shrink = 1;              ///< 1 - learning rate * weight decay
};
void train_adamw(cudaStream_t stream, const TrainAdamW& step, const float* gradient, int64_t n, float* values, float* m,
                 float* v);

}  // namespace ashlar::cuda
