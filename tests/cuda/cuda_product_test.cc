// SPDX-License-Identifier: Apache-2.0
// Several kernels serve a product, by the GPU, by shape and by where rows lie. Their bits must be the same, of weights
// of bf16 and of those rounded to 4 and 8 bits and to E4M3. Invariant: row-invariance.

#include <cstring>
#include <numeric>
#include <random>

#include "base/bf16.h"
#include "cuda/on_gpu.h"

namespace ashlar::testing {
namespace {

/// Rows of bf16 or fp32 on the GPU: at a multiple of 16 bytes each, or off any.
struct Placed {
  Placed(Ops& ops, int32_t rows, int32_t cols, bool aligned, DType dtype = DType::kBF16) : ops_(ops) {
    const int64_t stride = aligned ? (cols + 7) / 8 * 8 : cols + 5;
    memory_ = ops.allocate(static_cast<size_t>(rows * stride + 8) * bytes_of(dtype));
    tensor = {memory_->data() + (aligned ? 0 : 3) * bytes_of(dtype), rows, cols, stride, dtype};
  }
  void put(const std::vector<BFloat16>& values) {
    for (int32_t r = 0; r < tensor.rows; ++r) {
      ops_.upload(&values[static_cast<size_t>(r) * static_cast<size_t>(tensor.cols)], at(r), row_bytes());
    }
  }
  std::vector<std::byte> get() const {
    std::vector<std::byte> all(row_bytes() * static_cast<size_t>(tensor.rows));
    for (int32_t r = 0; r < tensor.rows; ++r)
      ops_.download(at(r), &all[static_cast<size_t>(r) * row_bytes()], row_bytes());
    return all;
  }
  size_t row_bytes() const { return static_cast<size_t>(tensor.cols) * bytes_of(tensor.dtype); }
  Tensor tensor;

 private:
  std::byte* at(int32_t r) const {
    return static_cast<std::byte*>(tensor.data) + static_cast<size_t>(r * tensor.stride) * bytes_of(tensor.dtype);
  }
  Ops& ops_;
  std::unique_ptr<Buffer> memory_;
};

std::vector<BFloat16> random_values(int64_t n, float deviation, std::mt19937& random) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<BFloat16> values(static_cast<size_t>(n));
  for (BFloat16& value : values) value = to_bf16(normal(random));
  return values;
}

class ProductsOnGpu : public OnGpu, public ::testing::WithParamInterface<KeptWeights> {
 protected:
  void SetUp() override { make(GetParam()); }
  std::unique_ptr<Weight> pack(int32_t n, int32_t k, bool gated = false, bool biased = false) {
    weights_.push_back(random_values(int64_t{n} * k, 1 / std::sqrt(static_cast<float>(k)), random_));
    std::vector<float> bias;
    for (int32_t i = 0; biased && i < n; ++i) bias.push_back(0.1F * static_cast<float>(i % 17));
    return ops_->pack({{{"w", Scheme::kBF16, weights_.back().data(), n, k}}, bias}, {.gated = gated});
  }
  std::mt19937 random_{11};
  std::vector<std::vector<BFloat16>> weights_;
};

constexpr int32_t kRowCounts[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 128, 129, 200, 257, 520, 1100};

// Every row stands among others at one place, and off it alone at another.
TEST_P(ProductsOnGpu, BitsDoNotDependOnWhereRowsLie) {
  constexpr int32_t kRows = 1100;
  for (const auto& [n, k] :
       {std::pair{64, 64}, {128, 256}, {200, 136}, {192, 200}, {3072, 1024}, {64, 2200}, {8192, 512}, {8512, 2100}}) {
    const auto weight = pack(n, k, false, n == 200 || k == 2200);
    const std::vector<BFloat16> x = random_values(int64_t{kRows} * k, 1, random_);
    const std::vector<BFloat16> before = random_values(int64_t{kRows} * n, 1, random_);
    for (const bool add : {false, true}) {
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        if (add && dtype == DType::kF32) continue;
        const auto result = [&](int32_t rows, bool aligned) {
          Placed in(*ops_, rows, k, aligned), out(*ops_, rows, n, aligned, dtype);
          in.put(x);
          if (dtype == DType::kBF16) out.put(before);
          ops_->linear(*weight, in.tensor, add ? Store::kAdd : Store::kOverwrite, out.tensor);
          return out.get();
        };
        const std::vector<std::byte> all = result(kRows, false);
        for (const int32_t rows : kRowCounts) {
          const std::vector<std::byte> some = result(rows, true);
          ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size()), 0)
              << n << " x " << k << ", " << rows << " rows, " << name_of(dtype) << (add ? ", added" : "");
        }
      }
    }
  }
}

TEST_P(ProductsOnGpu, BitsOfAGatedMlpDoNotDependOnWhereRowsLie) {
  constexpr int32_t kRows = 1100;
  for (const auto& [width, k] : {std::pair{64, 128}, {96, 256}, {100, 64}, {1536, 1024}, {4096, 256}}) {
    const auto gate_up = pack(2 * width, k, true);
    const auto down = pack(k, width);
    const std::vector<BFloat16> x = random_values(int64_t{kRows} * k, 1, random_);
    const std::vector<float> norm(static_cast<size_t>(k), 1.5F);
    const auto norms = ops_->allocate(sizeof(float) * norm.size());
    ops_->upload(norm.data(), norms->data(), sizeof(float) * norm.size());
    for (const bool normed : {false, true}) {
      const auto result = [&](int32_t rows, bool aligned) {
        Placed in(*ops_, rows, k, aligned);
        in.put(x);
        const auto* const weight = normed ? reinterpret_cast<const float*>(norms->data()) : nullptr;
        ops_->gated_mlp(*gate_up, *down, {in.tensor, weight, 1e-6F}, in.tensor);
        return in.get();
      };
      const std::vector<std::byte> all = result(kRows, false);
      for (const int32_t rows : kRowCounts) {
        const std::vector<std::byte> some = result(rows, true);
        ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size()), 0)
            << width << " x " << k << ", " << rows << " rows" << (normed ? ", normed" : "");
      }
    }
  }
}

// A weight of few bits is one of bf16 that takes less room: where both cut K into as many segments, their products
// agree. The last has more values than are made bf16 at a time.
TEST_P(ProductsOnGpu, BitsAreThoseOfTheValuesInBf16) {
  if (GetParam() == KeptWeights::kFp8) GTEST_SKIP() << "scales of E4M3 are for sums";
  for (const auto& [n, k] : {std::pair{64, 64}, {128, 256}, {200, 136}, {333, 500}, {8300, 72}, {87552, 384}}) {
    const auto packed = pack(n, k);
    Placed values(*ops_, n, k, true);
    std::vector<int32_t> ids(static_cast<size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    const auto rows_of_table = ops_->allocate(sizeof(int32_t) * ids.size());
    ops_->upload(ids.data(), rows_of_table->data(), sizeof(int32_t) * ids.size());
    ops_->embed(*packed, reinterpret_cast<const int32_t*>(rows_of_table->data()), 1, values.tensor);
    const std::vector<std::byte> bytes = values.get();
    const auto exact = make_device("cuda", {.threads = 0, .isa = {}, .weights = KeptWeights::kExact});
    const auto plain = exact->pack({{{"w", Scheme::kBF16, bytes.data(), n, k}}, {}}, {});
    ASSERT_EQ(plain->format(), "bf16");
    for (const int32_t rows : {1, 8, 13, 16, 32, 40, 130, 300}) {
      const std::vector<BFloat16> x = random_values(int64_t{rows} * k, 1, random_);
      const auto result = [&](Ops& ops, const Weight& weight) {
        Placed in(ops, rows, k, rows % 2 == 0), out(ops, rows, n, true, DType::kF32);
        in.put(x);
        ops.linear(weight, in.tensor, Store::kOverwrite, out.tensor);
        return out.get();
      };
      const std::vector<std::byte> got = result(*ops_, *packed), want = result(*exact, *plain);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0) << n << " x " << k << ", " << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, ProductsOnGpu,
                         ::testing::Values(KeptWeights::kExact, KeptWeights::kInt8, KeptWeights::kInt4,
                                           KeptWeights::kFp8),
                         [](const auto& info) {
                           return info.param == KeptWeights::kExact  ? "exact"
                                  : info.param == KeptWeights::kInt8 ? "int8"
                                  : info.param == KeptWeights::kInt4 ? "int4"
                                                                     : "fp8";
                         });

}  // namespace
}  // namespace ashlar::testing
