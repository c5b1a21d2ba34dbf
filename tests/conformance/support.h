// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared by the conformance tests: every case runs once for each instruction set, against the reference device.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "device/device.h"
#include "device/ref/ref_ops.h"
#include "staged_ops.h"

namespace ashlar::conformance {

/// A tensor with room around it: rows `stride` apart, starting one float off any alignment, and guard values everywhere
/// else.
class Matrix {
 public:
  Matrix(int32_t rows, int32_t cols, int32_t extra_stride = 5)
      : rows_(rows), cols_(cols), stride_(cols + extra_stride), storage_(kLead + rows * stride_ + 64, kGuard) {}

  Tensor view() { return {storage_.data() + kLead, rows_, cols_, stride_}; }
  float* row(int32_t r) { return view().row(r); }
  const float* row(int32_t r) const { return storage_.data() + kLead + r * stride_; }
  int32_t rows() const { return rows_; }
  int32_t cols() const { return cols_; }

  void fill_normal(std::mt19937& random, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    for (int32_t r = 0; r < rows_; ++r) {
      for (int32_t c = 0; c < cols_; ++c) row(r)[c] = normal(random);
    }
    if (fills_with_bf16) round_to_bf16();
  }
  /// For devices with activations in bf16, so that they and the reference begin with the same numbers.
  static inline bool fills_with_bf16 = false;
  void round_to_bf16() {
    for (int32_t r = 0; r < rows_; ++r) {
      for (int32_t c = 0; c < cols_; ++c) row(r)[c] = to_float(to_bf16(row(r)[c]));
    }
  }
  /// True if nothing outside the tensor was written.
  bool guards_intact() const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - kLead;
      const bool inside = at >= 0 && at < int64_t{rows_} * stride_ && at % stride_ < cols_;
      if (!inside && storage_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr int32_t kLead = 17;
  static constexpr float kGuard = -12345.5F;
  int32_t rows_;
  int32_t cols_;
  int64_t stride_;
  std::vector<float> storage_;
};

inline size_t bytes_of(Scheme scheme) { return scheme == Scheme::kF32 ? 4 : 2; }

/// A checkpoint matrix in a storage type.
struct Checkpoint {
  Checkpoint(Scheme scheme, int64_t rows, int64_t cols, std::mt19937& random) : scheme(scheme), rows(rows), cols(cols) {
    std::normal_distribution<float> normal(0, 1);
    bytes.resize(static_cast<size_t>(rows * cols) * bytes_of(scheme));
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float value = normal(random);
      if (scheme == Scheme::kF32) {
        std::memcpy(&bytes[static_cast<size_t>(i) * 4], &value, 4);
      } else {
        // The upper half of a float with its exponent field narrowed is a valid f16 of moderate size.
        const uint16_t half = scheme == Scheme::kBF16 ? to_bf16(value).bits : static_cast<uint16_t>(random() & 0xBBFF);
        std::memcpy(&bytes[static_cast<size_t>(i) * 2], &half, 2);
      }
    }
  }
  WeightSource source(std::span<const float> bias = {}) const { return {{part(0, rows)}, {bias.begin(), bias.end()}}; }
  /// Rows [begin, begin + n).
  WeightPart part(int64_t begin, int64_t n) const {
    return {"w", scheme, bytes.data() + static_cast<size_t>(begin * cols) * bytes_of(scheme), n, cols};
  }
  Scheme scheme;
  int64_t rows;
  int64_t cols;
  std::vector<char> bytes;
};

inline double norm(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(sum);
}

/// Largest |a - b| over two equally shaped matrices, each row divided by the norm of its reference row.
inline double worst_row_error(const Matrix& got, const Matrix& want) {
  double worst = 0;
  for (int32_t r = 0; r < want.rows(); ++r) {
    const double scale = std::max(norm(want.row(r), want.cols()) / std::sqrt(std::max(1, want.cols())), 1e-30);
    for (int32_t c = 0; c < want.cols(); ++c) {
      const double error = std::abs(static_cast<double>(got.row(r)[c]) - want.row(r)[c]) / scale;
      if (std::isnan(error)) return error;  // more than any bound
      worst = std::max(worst, error);
    }
  }
  return worst;
}

/// The same for what two ops added to `before`.
inline double worst_added_error(Matrix got, Matrix want, const Matrix& before) {
  for (int32_t r = 0; r < want.rows(); ++r) {
    for (int32_t c = 0; c < want.cols(); ++c) {
      got.row(r)[c] -= before.row(r)[c];
      want.row(r)[c] -= before.row(r)[c];
    }
  }
  return worst_row_error(got, want);
}

inline bool same_bits(const float* a, const float* b, int32_t n) {
  return std::memcmp(a, b, sizeof(float) * static_cast<size_t>(n)) == 0;
}

/// The products `got` of the rows of x have the same bits where each row is alone, and linear_argmax() finds the
/// highest of each.
inline void expect_rows_alone(Ops& ops, const Weight& weight, Matrix& x, const Matrix& got) {
  const int32_t n = got.cols(), k = x.cols();
  std::vector<int32_t> ids(static_cast<size_t>(x.rows()));
  ops.linear_argmax(weight, x.view(), ids.data());
  Matrix one(1, k), alone(1, n);
  for (int32_t r = 0; r < x.rows(); ++r) {
    std::copy_n(x.row(r), k, one.row(0));
    ops.linear(weight, one.view(), Store::kOverwrite, alone.view());
    ASSERT_TRUE(same_bits(alone.row(0), got.row(r), n)) << n << " " << k << " row " << r << " of " << x.rows();
    ASSERT_EQ(ids[static_cast<size_t>(r)], std::max_element(got.row(r), got.row(r) + n) - got.row(r));
  }
}

/// Why the device cannot be made here; empty if it can.
inline std::string missing(const std::string& device) {
  try {
    make_device(device, {});
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

inline std::vector<KvDType> kv_dtypes_of(int32_t head_dim) {
  std::vector<KvDType> all = {KvDType::kF32, KvDType::kBF16, KvDType::kInt8};
  if (head_dim >= 16 && (head_dim & (head_dim - 1)) == 0) all.push_back(KvDType::kTq4);
  return all;
}

/// States of a recurrent layer on a device. What was never stored is no number, so that it shows where it matters.
struct States {
  States(Ops& ops, int64_t state_floats, int64_t log_floats, int32_t slots, int32_t log_rows, int32_t snapshots) {
    plane.stride = (4 * state_floats + 63) / 64 * 64;
    plane.log_stride = (4 * log_floats + 63) / 64 * 64;
    plane.slots = slots;
    plane.log_rows = log_rows;
    const int64_t bytes = slots * (plane.stride + log_rows * plane.log_stride) + snapshots * plane.stride;
    memory = ops.allocate(static_cast<size_t>(std::max<int64_t>(bytes, 64)));
    std::memset(memory->data(), 0xFF, memory->size());
    plane.base = memory->data();
  }
  std::unique_ptr<Buffer> memory;
  StatePlane plane;
};

/// One instruction set of the cpu device, or "cuda"; skipped where the machine lacks it.
class OnIsa : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (on_gpu()) {
      static const std::string lack = missing("cuda");
      if (!lack.empty()) GTEST_SKIP() << lack;
      Matrix::fills_with_bf16 = true;
      return;
    }
    const std::vector<std::string> have = isa_choices();
    if (std::find(have.begin(), have.end(), GetParam()) == have.end()) GTEST_SKIP() << "no " << GetParam() << " here";
  }
  void TearDown() override { Matrix::fills_with_bf16 = false; }
  std::unique_ptr<Ops> make(int32_t threads = 2, KvDType kv_dtype = KvDType::kBF16) const {
    DeviceOptions options;
    options.threads = threads;
    options.kv_dtype = kv_dtype;
    if (on_gpu()) return std::make_unique<StagedOps>(make_device("cuda", options));
    options.isa = GetParam();
    return make_device("cpu", options);
  }
  bool on_gpu() const { return GetParam() == "cuda"; }
  /// Products of bf16 weights take activations rounded to bf16 on this path.
  bool rounds_activations() const { return on_gpu() || GetParam() == "amx" || GetParam() == "avx512bf16"; }
  /// The bound of an error: a GPU's activations are bf16, rounded to 2^-9 of themselves wherever an op ends.
  double bound(double of_fp32, double of_bf16) const { return on_gpu() ? of_bf16 : of_fp32; }
  /// Numbers that a cache of heads of this size may have.
  std::vector<KvDType> kv_dtypes(int32_t head_dim) const {
    std::vector<KvDType> all = kv_dtypes_of(head_dim);
    if (on_gpu()) std::erase(all, KvDType::kF32);
    return all;
  }
  /// The most exact of these.
  KvDType exact_kv() const { return on_gpu() ? KvDType::kBF16 : KvDType::kF32; }
  std::mt19937 random_{20260};
};

inline std::string isa_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

inline std::vector<std::string> isas_and_gpu() {
  std::vector<std::string> all = {"portable", "avx2", "avx512", "avx512bf16", "amx"};
  for (const std::string& device : device_names()) {
    if (device == "cuda") all.push_back(device);
  }
  return all;
}

#define ASHLAR_FOR_EACH_ISA(Fixture) INSTANTIATE_TEST_SUITE_P(Isa, Fixture, testing::ValuesIn(isas_and_gpu()), isa_name)

}  // namespace ashlar::conformance
