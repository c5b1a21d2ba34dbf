#pragma once
// What the kernels of training offer the host. Every function queues its work on the stream and returns; what it points
// to is device memory. All is fp32; sums have a fixed order, so the same call gives the same bits.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ashlar::cuda {

/// Activations [rows, cols], `stride` floats from one row to the next.
struct FloatRows {
  float* data = nullptr;
  int32_t rows = 0;
  int32_t cols = 0;
  int64_t stride = 0;
};

void train_rms_norm(cudaStream_t stream, const FloatRows& x, const float* weight, float eps, const FloatRows& out);

/// Partial sums of d_weight: at most this many for each column.
inline constexpr int32_t kNormPartials = 128;
struct NormGradient {
  FloatRows d_out, x, d_x;
  const float* weight = nullptr;
  float eps = 0;
  bool add = false;           ///< to d_x
  float* d_weight = nullptr;  ///< [cols], added to
  float* factors = nullptr;   ///< scratch [rows, 2]
  float* partials = nullptr;  ///< scratch [kNormPartials, cols]
};
void train_rms_norm_gradient(cudaStream_t stream, const NormGradient& call);

/// Angles [positions, head_dim / 2]; sign -1 rotates back.
void train_rope(cudaStream_t stream, const FloatRows& x, int32_t head_dim, const float* cos, const float* sin,
                const int32_t* positions, float sign);

void train_silu_mul(cudaStream_t stream, const FloatRows& gate, const FloatRows& up, const FloatRows& out);
void train_silu_mul_gradient(cudaStream_t stream, const FloatRows& d_out, const FloatRows& gate, const FloatRows& up,
                             const FloatRows& d_gate, const FloatRows& d_up);

/// out[r] = scale * table[ids[r]]; ids null: row r.
void train_gather(cudaStream_t stream, const FloatRows& table, const int32_t* ids, float scale, const FloatRows& out);
/// out[r] = x[r], of bf16, `stride` values from one row to the next.
void train_widen(cudaStream_t stream, const void* x, int64_t stride, const FloatRows& out);
/// out[ids[r]] = rows[r] * scales[r]; other rows stay.
void train_scatter(cudaStream_t stream, const FloatRows& rows, const int32_t* ids, const float* scales,
                   const FloatRows& out);

/// One for each block: its context rows and where they begin.
struct TrainBlock {
  int32_t first = 0;
  int32_t n = 0;
};
struct TrainAttention {
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  int32_t block = 0, n_blocks = 0, context_rows = 0, window = 0;
  const TrainBlock* blocks = nullptr;
  FloatRows q, k, v, out, log_sums;
  FloatRows d_out, d_q, d_k, d_v;
  float* means = nullptr;  ///< scratch [block rows, heads]: the products d_out out
};
/// Widest head that the kernels have registers for.
inline constexpr int32_t kMostTrainHead = 256;
void train_attention(cudaStream_t stream, const TrainAttention& call);
void train_attention_gradient(cudaStream_t stream, const TrainAttention& call);

/// What is found out about a row of logits.
struct RowLoss {
  float loss = 0;
  float probability = 0;
  int32_t best = 0;
};
/// Logits [rows, vocab] become the gradient of each row's loss if `differentiates`.
void train_cross_entropy(cudaStream_t stream, const FloatRows& logits, const int32_t* labels, bool differentiates,
                         RowLoss* losses);

inline constexpr int32_t kSquaredPartials = 1024;
/// partials [kSquaredPartials]: their sum is that of the squares of n values.
void train_squares(cudaStream_t stream, const float* values, int64_t n, double* partials);
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
