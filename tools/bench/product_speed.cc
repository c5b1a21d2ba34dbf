// SPDX-License-Identifier: Apache-2.0
// product_speed [WEIGHTS] HIDDEN Q KV WIDE ROWS...: what it costs that a row's bits do not depend on the other rows.
// Microseconds of the four products of a layer (queries, keys and values; output; gates and ups; down) in bf16, by the
// device's own kernels, whose sums have one order for any number of rows, and by the fastest kernels of cuBLASLt for
// each product and number of rows, out of all that its heuristics name. Layers take turns, so that weights come from
// memory; both have residuals to add, and only the device's own multiply gates. Medians of turns of many layers each.
// Qwen3-8B: 4096 4096 1024 12288. WEIGHTS: int8, int4 or fp8, with the device's own kernels alone, and of each product
// by itself.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "device/weights/kept_weights.h"
#include "device/weights/weight_source.h"

namespace {

using namespace ashlar;

constexpr int kLayers = 3;  // more than a second-level cache holds
constexpr int kTurns = 5;   // of which the median counts
constexpr double kTurnSeconds = 0.02;
constexpr size_t kWorkspace = size_t{64} << 20;
constexpr int kMaxAlgorithms = 64;
constexpr int32_t kMaxRows = 512;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cuBLASLt: status " + std::to_string(status));
}

struct Shape {
  int32_t n, k;
  bool adds;
};

/// Random bf16 between 2^-8 and 2^-6 in size.
std::vector<uint16_t> random_numbers(size_t n) {
  std::vector<uint16_t> numbers(n);
  uint32_t state = 1;
  for (uint16_t& number : numbers) {
    state = state * 1664525U + 1013904223U;
    number = static_cast<uint16_t>(0x3B80U | (state >> 16U & 0x80FFU));
  }
  return numbers;
}

/// Seconds of one call, the median of turns that each take a while.
template <class Work, class Wait>
double seconds_of(const Work& work, const Wait& wait) {
  const auto turn = [&](int calls) {
    wait();
    const int64_t begin = now_ns();
    for (int i = 0; i < calls; ++i) work();
    wait();
    return static_cast<double>(now_ns() - begin) * 1e-9 / calls;
  };
  turn(2);
  const int calls = std::max(2, static_cast<int>(kTurnSeconds / turn(4)));
  std::array<double, kTurns> seconds;
  for (double& one : seconds) one = turn(calls);
  std::sort(seconds.begin(), seconds.end());
  return seconds[kTurns / 2];
}

/// The library, which is loaded at run time.
struct Lt {
#define ASHLAR_LT(name) decltype(&cublasLt##name) name = find<decltype(&cublasLt##name)>("cublasLt" #name)
  void* library = open();
  ASHLAR_LT(Create);
  ASHLAR_LT(Matmul);
  ASHLAR_LT(MatmulDescCreate);
  ASHLAR_LT(MatmulDescSetAttribute);
  ASHLAR_LT(MatrixLayoutCreate);
  ASHLAR_LT(MatmulPreferenceCreate);
  ASHLAR_LT(MatmulPreferenceSetAttribute);
  ASHLAR_LT(MatmulAlgoGetHeuristic);
#undef ASHLAR_LT
  static void* open() {
    const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    for (const std::string& path : {name, "/usr/local/cuda/lib64/" + name}) {
      if (void* const found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
    }
    throw std::runtime_error(name + " is missing: name its folder in LD_LIBRARY_PATH");
  }
  template <class F>
  F find(const char* symbol) const {
    void* const found = dlsym(library, symbol);
    if (found == nullptr) throw std::runtime_error(std::string("cuBLASLt lacks ") + symbol);
    return reinterpret_cast<F>(found);
  }
};

/// Products by the library on a stream of its own. What it makes lives as long as the program.
class Free {
 public:
  explicit Free(Ops& ops) : ops_(ops), workspace_(ops.allocate(kWorkspace)) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(lt_.Create(&handle_));
  }
  void wait() { check(cudaStreamSynchronize(stream_)); }

  struct Product {
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t weight = nullptr, in = nullptr, out = nullptr;
    float kept = 0;
    cublasLtMatmulAlgo_t algorithm = {};
    int tried = 0;
  };

  /// The fastest way to multiply `rows` rows by such weights. x, out: rows of as many numbers.
  Product best(const Shape& shape, int32_t rows, std::span<std::byte* const> weights, std::byte* x, std::byte* out) {
    Product product;
    // The library has columns one after the other: out^T [n, rows] = W [k, n]^T x^T [k, rows].
    check(lt_.MatmulDescCreate(&product.what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(lt_.MatmulDescSetAttribute(product.what, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
    const auto layout = [&](cublasLtMatrixLayout_t& to, int32_t of_column, int32_t columns) {
      check(lt_.MatrixLayoutCreate(&to, CUDA_R_16BF, static_cast<uint64_t>(of_column), static_cast<uint64_t>(columns),
                                   of_column));
    };
    layout(product.weight, shape.k, shape.n);
    layout(product.in, shape.k, rows);
    layout(product.out, shape.n, rows);
    product.kept = shape.adds ? 1.0F : 0.0F;
    cublasLtMatmulPreference_t preference = nullptr;
    check(lt_.MatmulPreferenceCreate(&preference));
    check(lt_.MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                           sizeof(kWorkspace)));
    std::array<cublasLtMatmulHeuristicResult_t, kMaxAlgorithms> named = {};
    check(lt_.MatmulAlgoGetHeuristic(handle_, product.what, product.weight, product.in, product.out, product.out,
                                     preference, kMaxAlgorithms, named.data(), &product.tried));
    double least = 0;
    for (const auto& one : std::span(named).first(static_cast<size_t>(product.tried))) {
      if (one.state != CUBLAS_STATUS_SUCCESS) continue;
      Product candidate = product;
      candidate.algorithm = one.algo;
      size_t turn = 0;
      const auto multiply = [&] { run(candidate, weights[turn++ % weights.size()], x, out); };
      double seconds = 0;
      try {
        multiply();
        wait();
        const int64_t begin = now_ns();
        for (int i = 0; i < 24; ++i) multiply();
        wait();
        seconds = static_cast<double>(now_ns() - begin) * 1e-9;
      } catch (const std::runtime_error&) {
        continue;
      }
      if (least > 0 && seconds >= least) continue;
      least = seconds;
      product.algorithm = candidate.algorithm;
    }
    return product;
  }
  void run(const Product& product, const std::byte* weight, const std::byte* x, std::byte* out) {
    const float one = 1;
    check(lt_.Matmul(handle_, product.what, &one, weight, product.weight, x, product.in, &product.kept, out,
                     product.out, out, product.out, &product.algorithm, workspace_->data(), kWorkspace, stream_));
  }

 private:
  Ops& ops_;
  Lt lt_;
  std::unique_ptr<Buffer> workspace_;
  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
};

void measure(KeptWeights kept, int32_t hidden, int32_t q, int32_t kv, int32_t wide,
             const std::vector<int32_t>& counts) {
  const auto ops = make_device("cuda", {.threads = 0, .isa = {}, .weights = kept});
  const bool is_plain = kept == KeptWeights::kAuto;
  const std::array<Shape, 4> shapes = {
      {{q + 2 * kv, hidden, false}, {hidden, q, true}, {2 * wide, hidden, false}, {hidden, wide, true}}};
  std::array<std::vector<std::unique_ptr<Weight>>, 4> own;
  std::array<std::vector<std::unique_ptr<Buffer>>, 4> plain;
  std::array<std::vector<std::byte*>, 4> weights;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape& shape = shapes[i];
    const std::vector<uint16_t> numbers = random_numbers(static_cast<size_t>(shape.n) * static_cast<size_t>(shape.k));
    const WeightSource source = {{WeightPart("random", Scheme::kBF16, numbers.data(), shape.n, shape.k)}, {}};
    WeightUse use;
    use.gated = i == 2;
    for (int layer = 0; layer < kLayers; ++layer) {
      own[i].push_back(ops->pack(source, use));
      const size_t bytes = 2 * numbers.size();
      plain[i].push_back(ops->allocate(bytes));
      weights[i].push_back(plain[i].back()->data());
      ops->upload(numbers.data(), weights[i].back(), bytes);
    }
  }
  const int32_t widest = std::max({2 * wide, q + 2 * kv, hidden});
  const size_t bytes = 2 * static_cast<size_t>(kMaxRows) * static_cast<size_t>(widest);
  const std::vector<uint16_t> numbers = random_numbers(bytes / 2);
  std::array<std::unique_ptr<Buffer>, 3> rows_of;  // what enters, what leaves, the residual
  for (auto& buffer : rows_of) {
    buffer = ops->allocate(bytes);
    ops->upload(numbers.data(), buffer->data(), bytes);
  }
  std::byte* const in = rows_of[0]->data();
  std::byte* const out = rows_of[1]->data();
  std::byte* const residual = rows_of[2]->data();
  float word = 0;
  const auto wait_for_own = [&] { ops->download(in, &word, sizeof(word)); };
  wait_for_own();
  const auto free = is_plain ? std::make_unique<Free>(*ops) : nullptr;
  std::printf("%s, %d layers by turns, %d: microseconds of a layer's four products\n", ops->isa().c_str(), kLayers,
              hidden);
  for (const int32_t rows : counts) {
    if (rows < 1 || rows > kMaxRows) throw std::runtime_error("1 to " + std::to_string(kMaxRows) + " rows");
    std::array<Free::Product, 4> best;
    for (size_t i = 0; free && i < shapes.size(); ++i) {
      best[i] = free->best(shapes[i], rows, weights[i], in, shapes[i].adds ? residual : out);
    }
    const auto tensor = [&](std::byte* data, int32_t cols) { return Tensor{data, rows, cols, cols, DType::kBF16}; };
    int layer = 0;
    const std::array<std::function<void(size_t)>, 3> parts = {
        [&](size_t at) { ops->linear(*own[0][at], tensor(in, hidden), Store::kOverwrite, tensor(out, shapes[0].n)); },
        [&](size_t at) { ops->linear(*own[1][at], tensor(in, q), Store::kAdd, tensor(residual, hidden)); },
        [&](size_t at) { ops->gated_mlp(*own[2][at], *own[3][at], tensor(in, hidden), tensor(residual, hidden)); }};
    const double of_own = seconds_of(
        [&] {
          const auto at = static_cast<size_t>(layer++ % kLayers);
          for (const auto& part : parts) part(at);
        },
        wait_for_own);
    if (!free) {
      std::printf("%4d rows: %7.1f:", rows, of_own * 1e6);
      for (const auto& part : parts) {
        const double seconds = seconds_of([&] { part(static_cast<size_t>(layer++ % kLayers)); }, wait_for_own);
        std::printf(" %6.1f", seconds * 1e6);
      }
      std::printf("\n");
      std::fflush(stdout);
      continue;
    }
    const double of_free = seconds_of(
        [&] {
          const auto at = static_cast<size_t>(layer++ % kLayers);
          for (size_t i = 0; i < shapes.size(); ++i) {
            free->run(best[i], weights[i][at], in, shapes[i].adds ? residual : out);
          }
        },
        [&] { free->wait(); });
    std::printf("%4d rows: own %7.1f, free %7.1f (of %d, %d, %d, %d ways): %.3f\n", rows, of_own * 1e6, of_free * 1e6,
                best[0].tried, best[1].tried, best[2].tried, best[3].tried, of_own / of_free);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  KeptWeights kept = KeptWeights::kAuto;
  if (const auto named = argc > 1 ? kept_weights_of(argv[1]) : std::nullopt) {
    kept = *named;
    --argc, ++argv;
  }
  if (argc < 6) {
    std::fprintf(stderr, "usage: product_speed [WEIGHTS] HIDDEN Q KV WIDE ROWS...\n");
    return 2;
  }
  try {
    std::vector<int32_t> counts;
    for (int i = 5; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
    measure(kept, std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), counts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "product_speed: %s\n", error.what());
    return 1;
  }
  return 0;
}
