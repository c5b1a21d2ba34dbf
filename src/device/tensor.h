// SPDX-License-Identifier: Apache-2.0
#pragma once
// Views of memory that a device owns. No view owns what it points to.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace ashlar {

enum class DType : uint8_t { kF32, kBF16 };

constexpr size_t bytes_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
constexpr std::string_view name_of(DType dtype) { return dtype == DType::kF32 ? "f32" : "bf16"; }

/// Activations: [rows, cols] elements, `stride` elements from one row to the next. Only the device whose memory it is
/// reads or writes what `data` points to.
struct Tensor {
  void* data = nullptr;
  int32_t rows = 0;
  int32_t cols = 0;
  int64_t stride = 0;
  DType dtype = DType::kF32;

  /// Row r, for the device itself; Element is the type that `dtype` names.
  template <class Element = float>
  Element* row(int64_t r) const {
    return static_cast<Element*>(data) + r * stride;
  }
  /// The first n rows.
  Tensor narrow(int32_t n) const {
    ASHLAR_CHECK_LE(n, rows);
    return {data, n, cols, stride, dtype};
  }
  /// All but the first n rows.
  Tensor skip(int32_t n) const {
    ASHLAR_CHECK_LE(n, rows);
    return {at(n * stride), rows - n, cols, stride, dtype};
  }
  /// Rows [first, first + count).
  Tensor part(int32_t first, int32_t count) const { return skip(first).narrow(count); }
  /// Columns [begin, begin + n) of every row.
  Tensor columns(int32_t begin, int32_t n) const {
    ASHLAR_CHECK_LE(begin + n, cols);
    return {at(begin), rows, n, stride, dtype};
  }

 private:
  void* at(int64_t element) const {
    return static_cast<std::byte*>(data) + element * static_cast<int64_t>(bytes_of(dtype));
  }
};

}  // namespace ashlar
