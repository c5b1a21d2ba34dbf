// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products by cuBLAS, which is loaded when the first is made: the program starts, and serves, without it.

#include <cublas_v2.h>

#include <memory>

#include "device/cuda/cuda_memory.h"

namespace ashlar::cuda {

class Cublas {
 public:
  /// Throws Error("cuda", ...) where the library is missing. Its workspace is of `memory`, so that the same call gives
  /// the same bits.
  explicit Cublas(Memory& memory);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// A matrix as it lies in memory, rows one after the other, or its transpose.
  struct Side {
    Tensor tensor;
    bool transposed = false;
  };
  /// out = a b over k values, or that is added. Both factors are bf16, or both fp32, which are rounded to TF32 (10 bits
  /// of mantissa). Sums are fp32 and rounded once to out's type.
  void product(const Side& a, const Side& b, int32_t k, bool add, Tensor out);
  /// n products at once, stored in fp32: each tensor has n matrices, one after the other. Factors as above.
  void products(int32_t n, const Side& a, const Side& b, int32_t k, Tensor out);

 private:
  struct Calls;
  Memory& memory_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Buffer> workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace ashlar::cuda
