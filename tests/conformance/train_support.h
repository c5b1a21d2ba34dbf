// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops of training on each instruction set and on the GPU, next to those of the reference device.

#include "base/error.h"
#include "device/train_ops.h"
#include "staged_train_ops.h"
#include "support.h"

namespace ashlar::conformance {

/// Of a row, in the Euclidean norm.
inline constexpr double kTrainTolerance = 2e-5;

struct Size {
  int32_t m, n, k;
};

class TrainOpsOnIsa : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    options_.threads = 3;
    if (on_gpu()) {
      try {
        ops_ = std::make_unique<StagedTrainOps>(make_train_ops("cuda", options_));
      } catch (const Error& error) {
        GTEST_SKIP() << error.what();
      }
      return;
    }
    const std::vector<std::string> have = isa_choices();
    if (std::find(have.begin(), have.end(), GetParam()) == have.end()) GTEST_SKIP() << "no " << GetParam() << " here";
    options_.isa = GetParam();
    ops_ = make_train_ops("cpu", options_);
  }

  bool on_gpu() const { return GetParam() == "cuda"; }
  /// Of products, whose factors the GPU rounds to 10 bits of mantissa.
  double bound(double of_fp32, double of_tf32) const { return on_gpu() ? of_tf32 : of_fp32; }

  Matrix normal(int32_t rows, int32_t cols, float deviation = 1, int32_t extra_stride = 5) {
    Matrix m(rows, cols, extra_stride);
    m.fill_normal(random_, deviation);
    return m;
  }
  /// call(ops, out) for both devices, which begin with the same `out`.
  template <class Call>
  void compare(const Matrix& out, const Call& call, const char* what, double tolerance = kTrainTolerance) {
    Matrix got = out;
    Matrix want = out;
    call(*ops_, got);
    call(*ref_, want);
    EXPECT_LT(worst_row_error(got, want), tolerance) << what;
    EXPECT_TRUE(got.guards_intact()) << what;
  }

  DeviceOptions options_;
  std::unique_ptr<TrainOps> ops_;
  std::unique_ptr<TrainOps> ref_ = make_train_ops("ref", {});
  std::mt19937 random_{20261};
};

}  // namespace ashlar::conformance
