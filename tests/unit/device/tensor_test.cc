// SPDX-License-Identifier: Apache-2.0
// Views of tensors, whatever the type of their elements.

#include "device/tensor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ashlar {
namespace {

class TensorViews : public testing::TestWithParam<DType> {};

// Every view begins where element (row, column) of the whole lies, counted in bytes, and keeps type and stride.
TEST_P(TensorViews, BeginAtTheirElement) {
  constexpr int32_t kRows = 5, kCols = 7, kStride = 9;
  const size_t size = bytes_of(GetParam());
  std::vector<std::byte> memory(size * kRows * kStride);
  const Tensor whole = {memory.data(), kRows, kCols, kStride, GetParam()};
  const auto expect = [&](Tensor view, int32_t row, int32_t column, int32_t rows, int32_t cols) {
    EXPECT_EQ(static_cast<std::byte*>(view.data) - memory.data(),
              static_cast<int64_t>(size) * (row * kStride + column));
    EXPECT_EQ(view.rows, rows);
    EXPECT_EQ(view.cols, cols);
    EXPECT_EQ(view.stride, kStride);
    EXPECT_EQ(view.dtype, GetParam());
  };
  expect(whole.narrow(3), 0, 0, 3, kCols);
  expect(whole.skip(2), 2, 0, 3, kCols);
  expect(whole.part(1, 3), 1, 0, 3, kCols);
  expect(whole.columns(2, 4), 0, 2, kRows, 4);
  expect(whole.part(3, 2).columns(6, 1).skip(1), 4, 6, 1, 1);
}

INSTANTIATE_TEST_SUITE_P(, TensorViews, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace ashlar
