// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every trial needs: checked calls, random inputs, tensor maps, timing of cold launches, cuBLAS.

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                                                     \
  do {                                                                                                  \
    const cudaError_t error = (call);                                                                   \
    if (error != cudaSuccess) {                                                                         \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));             \
      std::exit(1);                                                                                     \
    }                                                                                                   \
  } while (false)

namespace lab {

using bf16 = __nv_bfloat16;

template <class T>
T* allocate(size_t count) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, std::max<size_t>(count * sizeof(T), 16)));
  return static_cast<T*>(data);
}

__host__ __device__ inline uint32_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return static_cast<uint32_t>(x >> 32);
}

/// Near normal (a sum of four uniforms) times `scale`, with one value in 64 eight times larger, so that exponents spread.
__host__ __device__ inline float random_value(uint64_t seed, uint64_t i, float scale) {
  const uint32_t a = mix(seed * 0x9E3779B97F4A7C15ull + 2 * i), b = mix(seed * 0x9E3779B97F4A7C15ull + 2 * i + 1);
  const float sum = static_cast<float>(a & 0xFFFF) + static_cast<float>(a >> 16) + static_cast<float>(b & 0xFFFF) +
                    static_cast<float>((b >> 16) & 0x3FFF) * 4.0F;
  const float normal = (sum / 65536.0F - 2.0F) * 1.73F;
  return normal * scale * ((b >> 26) == 0 ? 8.0F : 1.0F);
}

static __global__ void fill_random(bf16* to, int64_t count, uint64_t seed, float scale) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    to[i] = __float2bfloat16_rn(random_value(seed, i, scale));
  }
}

inline bf16* random_bf16(int64_t count, uint64_t seed, float scale) {
  bf16* data = allocate<bf16>(count);
  fill_random<<<1024, 256>>>(data, count, seed, scale);
  CHECK(cudaGetLastError());
  return data;
}

template <class T>
std::vector<T> download(const T* from, size_t count) {
  std::vector<T> values(count);
  CHECK(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

/// Numbers of 16-bit or 32-bit words in which two arrays differ.
template <class T>
__global__ void count_differences(const T* a, const T* b, int64_t count, unsigned long long* differences) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    if (a[i] != b[i]) atomicAdd(differences, 1ull);
  }
}

template <class T>
unsigned long long differences(const T* a, const T* b, int64_t count) {
  static unsigned long long* counter = allocate<unsigned long long>(1);
  CHECK(cudaMemset(counter, 0, 8));
  count_differences<<<1024, 256>>>(a, b, count, counter);
  CHECK(cudaGetLastError());
  unsigned long long found = 0;
  CHECK(cudaMemcpy(&found, counter, 8, cudaMemcpyDeviceToHost));
  return found;
}

/// Rows x columns of bf16, `stride` elements a row, in boxes of 64 columns x box_rows with the 128-byte permutation.
inline CUtensorMap rows_map(const bf16* data, int64_t rows, int64_t columns, int64_t stride, int box_rows) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* symbol = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000, cudaEnableDefault, &result));
    return reinterpret_cast<Encode>(symbol);
  }();
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult error = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16*>(data), sizes, strides, box,
                                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error != CUDA_SUCCESS) std::printf("tensor map refused: %d\n", static_cast<int>(error)), std::exit(1);
  return map;
}

/// [rows, heads, head_dim] of bf16 with `stride` elements a row, in boxes of 64 dimensions x group heads x tokens.
inline CUtensorMap queries_map(const bf16* q, int64_t rows, int heads, int head_dim, int64_t stride, int group, int tokens) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  void* symbol = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000, cudaEnableDefault, &result));
  CUtensorMap map;
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(head_dim), static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(head_dim) * 2, static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[3] = {64, static_cast<cuuint32_t>(group), static_cast<cuuint32_t>(tokens)};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult error = reinterpret_cast<Encode>(symbol)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<bf16*>(q), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error != CUDA_SUCCESS) std::printf("query map refused: %d\n", static_cast<int>(error)), std::exit(1);
  return map;
}

/// Microseconds per launch of launch(stream, i), i = 0 .. launches - 1, as one graph: median of `repeats` replays.
inline double time_graph(int launches, const std::function<void(cudaStream_t, int)>& launch, int repeats = 7) {
  static cudaStream_t stream = [] {
    cudaStream_t made;
    CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
  }();
  CHECK(cudaDeviceSynchronize());
  launch(stream, 0);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < launches; ++i) launch(stream, i);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < repeats + 1; ++i) {
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i > 0) times.push_back(milliseconds);
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1000.0 / launches;
}

static __global__ void copy_words(const uint4* from, uint4* to, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    const uint4 a = __ldcs(from + i), b = __ldcs(from + i + step), c = __ldcs(from + i + 2 * step),
                d = __ldcs(from + i + 3 * step);
    __stcs(to + i, a), __stcs(to + i + step, b), __stcs(to + i + 2 * step, c), __stcs(to + i + 3 * step, d);
  }
  for (; i < count; i += step) to[i] = from[i];
}

static __global__ void copy_pieces(const uint4* from, uint4* to) {
  const int64_t first = blockIdx.x * int64_t{1024} + threadIdx.x;
  uint4 words[4];
  for (int i = 0; i < 4; ++i) words[i] = from[first + i * 256];
  for (int i = 0; i < 4; ++i) to[first + i * 256] = words[i];
}

/// Device-to-device copy of 2 GiB, bytes read and written per second, in TB/s: the better of the driver's and a kernel's.
inline double copy_bandwidth() {
  const size_t bytes = size_t{1} << 31;
  char* from = allocate<char>(bytes);
  char* to = allocate<char>(bytes);
  fill_random<<<1024, 256>>>(reinterpret_cast<bf16*>(from), bytes / 2, 9, 1.0F);
  const double us = time_graph(4, [&](cudaStream_t stream, int) {
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  });
  const double by_kernel = time_graph(4, [&](cudaStream_t stream, int) {
    copy_words<<<132 * 8, 256, 0, stream>>>(reinterpret_cast<uint4*>(from), reinterpret_cast<uint4*>(to), bytes / 16);
  });
  std::printf("copy of 2 GiB: driver %.3f, kernel %.3f TB/s read and written\n", 2.0 * bytes / us * 1e-6,
              2.0 * bytes / by_kernel * 1e-6);
  const double by_blocks = time_graph(4, [&](cudaStream_t stream, int) {
    copy_pieces<<<bytes / 16 / 1024, 256, 0, stream>>>(reinterpret_cast<uint4*>(from), reinterpret_cast<uint4*>(to));
  });
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  const double best = 2.0 * bytes / std::min({us, by_kernel, by_blocks}) * 1e-6;
  std::printf("  one block a piece %.3f; the best is what 'copy' means below\n", 2.0 * bytes / by_blocks * 1e-6);
  return best;
}

/// cuBLAS, found at run time. Null where it is missing.
class Blas {
 public:
  Blas() {
    for (const char* name : {"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13",
                             "/opt/torch/.venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublas.so.13"}) {
      library_ = dlopen(name, RTLD_NOW);
      if (library_ != nullptr) break;
    }
    if (library_ == nullptr) {
      std::printf("no cuBLAS: %s\n", dlerror());
      return;
    }
    gemm_ = reinterpret_cast<Gemm>(dlsym(library_, "cublasGemmEx"));
    set_stream_ = reinterpret_cast<decltype(&cublasSetStream_v2)>(dlsym(library_, "cublasSetStream_v2"));
    const auto create = reinterpret_cast<decltype(&cublasCreate_v2)>(dlsym(library_, "cublasCreate_v2"));
    const auto workspace = reinterpret_cast<decltype(&cublasSetWorkspace_v2)>(dlsym(library_, "cublasSetWorkspace_v2"));
    create(&handle_);
    set_workspace_ = workspace;
    memory_ = allocate<char>(size_t{64} << 20);
  }
  explicit operator bool() const { return library_ != nullptr; }
  /// y [rows, n] = x [rows, k] w [n, k]^T, all row-major.
  void product(cudaStream_t stream, const bf16* x, const bf16* w, void* y, bool fp32, int rows, int n, int k) {
    set_stream_(handle_, stream);
    set_workspace_(handle_, memory_, size_t{64} << 20);
    const float one = 1, zero = 0;
    const cublasStatus_t status =
        gemm_(handle_, CUBLAS_OP_T, CUBLAS_OP_N, n, rows, k, &one, w, CUDA_R_16BF, k, x, CUDA_R_16BF, k, &zero, y,
              fp32 ? CUDA_R_32F : CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) std::printf("cuBLAS: %d\n", status), std::exit(1);
  }

 private:
  using Gemm = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                                  const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                                  cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
  void* library_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  char* memory_ = nullptr;
  Gemm gemm_ = nullptr;
  decltype(&cublasSetStream_v2) set_stream_ = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace_ = nullptr;
};

}  // namespace lab
