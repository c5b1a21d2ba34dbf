// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/train/cublas.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
namespace {

/// What cuBLAS advises for compute capability 9.0.
constexpr size_t kWorkspace = size_t{32} << 20;

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error("cuda", std::string(call) + " failed with status " + std::to_string(static_cast<int>(status)) +
                          " of cuBLAS; if memory is short, train with fewer documents a batch");
}

void* open_library() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  for (const std::string& path : {name, "/usr/local/cuda/lib64/" + name}) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  const char* reason = dlerror();
  throw Error("cuda", "training on the GPU needs " + name + " of the CUDA toolkit, which cannot be loaded (" +
                          (reason == nullptr ? "" : reason) +
                          "): install it and name its folder in LD_LIBRARY_PATH, or train with --device cpu");
}

}  // namespace

struct Cublas::Calls {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  // Of C; the header has an overload of C++ besides.
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void* alpha,
                         const void* a, cudaDataType, int lda, const void* b, cudaDataType, int ldb, const void* beta,
                         void* c, cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t);
  cublasStatus_t (*gemms)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void* alpha,
                          const void* a, cudaDataType, int lda, long long a_step, const void* b, cudaDataType, int ldb,
                          long long b_step, const void* beta, void* c, cudaDataType, int ldc, long long c_step,
                          int count, cublasComputeType_t, cublasGemmAlgo_t);
  decltype(&cublasSetMathMode) set_math_mode;

  Calls() {
    void* const library = open_library();  // stays until the program ends
    const auto find = [&](auto& to, const char* symbol) {
      void* const found = dlsym(library, symbol);
      if (found == nullptr)
        throw Error("cuda", std::string("cuBLAS lacks ") + symbol + ": install that of CUDA " +
                                std::to_string(CUBLAS_VER_MAJOR));
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(found);
    };
    find(create, "cublasCreate_v2");
    find(destroy, "cublasDestroy_v2");
    find(set_stream, "cublasSetStream_v2");
    find(set_workspace, "cublasSetWorkspace_v2");
    find(gemm, "cublasGemmEx");
    find(gemms, "cublasGemmStridedBatchedEx");
    find(set_math_mode, "cublasSetMathMode");
  }
};

Cublas::Cublas(Memory& memory)
    : memory_(memory), calls_(std::make_unique<Calls>()), workspace_(memory.allocate(kWorkspace)) {
  enter_device(memory.device());
  check_cublas(calls_->create(&handle_), "cublasCreate");
  check_cublas(calls_->set_stream(handle_, memory.stream()), "cublasSetStream");
  check_cublas(calls_->set_math_mode(handle_, CUBLAS_TF32_TENSOR_OP_MATH), "cublasSetMathMode");
  check_cublas(calls_->set_workspace(handle_, workspace_->data(), kWorkspace), "cublasSetWorkspace");
}

Cublas::~Cublas() {
  if (handle_ != nullptr) calls_->destroy(handle_);
}

namespace {

cublasOperation_t operation(const Cublas::Side& side) { return side.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }
cudaDataType type(const Tensor& x) { return x.dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }
int stride(const Tensor& x) { return static_cast<int>(x.stride); }
/// Of products with factors of that type.
cublasComputeType_t computing(const Tensor& x) {
  return x.dtype == DType::kF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

}  // namespace

// cuBLAS has columns one after the other: to it every matrix is its transpose, and out^T = b^T a^T.
void Cublas::product(const Side& a, const Side& b, int32_t k, bool add, Tensor out) {
  ASHLAR_CHECK(a.tensor.dtype == b.tensor.dtype);
  enter_device(memory_.device());
  const float one = 1;
  const float kept = add ? 1.0F : 0.0F;
  check_cublas(calls_->gemm(handle_, operation(b), operation(a), out.cols, out.rows, k, &one, b.tensor.data,
                            type(b.tensor), stride(b.tensor), a.tensor.data, type(a.tensor), stride(a.tensor), &kept,
                            out.data, type(out), stride(out), computing(a.tensor), CUBLAS_GEMM_DEFAULT),
               "cublasGemmEx");
}

void Cublas::products(int32_t n, const Side& a, const Side& b, int32_t k, Tensor out) {
  ASHLAR_CHECK(a.tensor.dtype == b.tensor.dtype);
  enter_device(memory_.device());
  const float one = 1, none = 0;
  const auto step = [n](const Tensor& x) { return static_cast<long long>(x.rows / n * x.stride); };
  check_cublas(
      calls_->gemms(handle_, operation(b), operation(a), out.cols, out.rows / n, k, &one, b.tensor.data, type(b.tensor),
                    stride(b.tensor), step(b.tensor), a.tensor.data, type(a.tensor), stride(a.tensor), step(a.tensor),
                    &none, out.data, type(out), stride(out), step(out), n, computing(a.tensor), CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

}  // namespace ashlar::cuda
