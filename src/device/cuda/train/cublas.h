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
    const float* data = nullptr;
    int64_t stride = 0;
    bool transposed = false;
  };
  /// out [m, n] = a [m, k] b [k, n], or that is added. Factors are rounded to TF32 (10 bits of mantissa), sums are
  /// fp32.
  void product(const Side& a, const Side& b, int32_t m, int32_t n, int32_t k, bool add, float* out, int64_t stride);

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Buffer> workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace ashlar::cuda
