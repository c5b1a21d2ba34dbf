// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an instruction set provides for training. CpuTrainOps splits ops into calls of these; each runs on one thread.

#include <cstdint>
#include <string>

#include "device/train_ops.h"

namespace ashlar::cpu {

/// c [m, n] = a b, or that is added to c. Element (i, j) of a [m, k] is a[i * a_row + j * a_column], where one of the
/// two strides is 1; row j of b [k, n] begins at b + j * b_stride. The sum over k has one accumulator, from 0 to k - 1.
struct ProductCall {
  int32_t m = 0;
  int32_t n = 0;
  int32_t k = 0;
  const float* a = nullptr;
  int64_t a_row = 0;
  int64_t a_column = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool add = false;
};

/// One row of rms_norm's gradient. d_x may be d_out.
struct NormGradientCall {
  const float* d_out = nullptr;
  const float* x = nullptr;
  const float* weight = nullptr;
  float eps = 0;
  int32_t n = 0;
  bool add = false;  ///< to d_x
  float* d_x = nullptr;
  float* d_weight = nullptr;  ///< added to
};

/// AdamW with what its formula has of constants worked out.
struct AdamWCall {
  float beta1 = 0;
  float beta2 = 0;
  float step_size = 0;           ///< learning rate / correction of the first moment
  float inverse_correction = 0;  ///< 1 / square root of the correction of the second moment
  float eps = 0;
  float shrink = 1;  ///< 1 - learning rate * weight decay
};

struct TrainKernels {
  const char* isa = "";
  /// Rows of a tile where a_row is 1, where a_column is 1, and columns: products of these sizes are fastest.
  int32_t tile_rows = 1;
  int32_t strided_rows = 1;
  int32_t tile_columns = 1;
  void (*product)(const ProductCall& call) = nullptr;

  void (*rms_norm)(const float* x, const float* weight, float eps, int32_t n, float* out) = nullptr;
  void (*rms_norm_gradient)(const NormGradientCall& call) = nullptr;
  /// Halves of a head turned by the angles, backwards if `sign` is -1.
  void (*rotate)(float* head, int32_t head_dim, const float* cos, const float* sin, float sign) = nullptr;
  void (*silu_mul)(const float* gate, const float* up, int32_t n, float* out) = nullptr;
  void (*silu_mul_gradient)(const float* d_out, const float* gate, const float* up, int32_t n, float* d_gate,
                            float* d_up) = nullptr;
  void (*sigmoid_mul)(const float* gate, const float* x, int32_t n, float* out) = nullptr;
  void (*sigmoid_mul_gradient)(const float* d_out, const float* gate, const float* x, int32_t n, float* d_gate,
                               float* d_x) = nullptr;
  float (*highest)(const float* values, int32_t n) = nullptr;
  /// values = e^(values - offset); returns their sum.
  float (*exponentials)(float* values, int32_t n, float offset) = nullptr;
  float (*dot)(const float* a, const float* b, int32_t n) = nullptr;
  void (*scale)(float* values, int64_t n, float factor) = nullptr;
  /// out = alpha * x + beta * y; out may be x or y.
  void (*combine)(float alpha, const float* x, float beta, const float* y, int64_t n, float* out) = nullptr;
  /// gradient = probability * (gradient - mean): the gradient of a softmax.
  void (*softmax_gradient)(const float* probability, float mean, int32_t n, float* gradient) = nullptr;
  void (*adamw)(const AdamWCall& call, const float* gradient, int64_t n, float* values, float* m, float* v) = nullptr;
};

const TrainKernels& portable_train_kernels();
const TrainKernels& avx2_train_kernels();
const TrainKernels& avx512_train_kernels();

/// Kernels for one of isa_choices(), which may be those of a lesser one. Throws Error("device", ...) for another name.
const TrainKernels& train_kernels_for(const std::string& isa);

}  // namespace ashlar::cpu
