// SPDX-License-Identifier: Apache-2.0
#include "device/weights/e4m3_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/e4m3.h"

namespace ashlar {
namespace {

void copy_row(const WeightPart& part, int64_t row, uint8_t* codes, float* scales) {
  const ScaledMatrix& matrix = *part.scaled;
  const int64_t stored = part.first_row + part.values.place_of(row);
  const std::byte* from = matrix.numbers.data + stored * matrix.numbers.row_stride + part.first_col;  // a byte each
  for (int64_t col = 0; col < part.cols; ++col) codes[col] = static_cast<uint8_t>(from[col]);
  for (int64_t col = 0; col < part.cols; col += kE4M3Together) {
    *scales++ = matrix.scales.at(stored / matrix.scale_rows, matrix.group_of(part.first_col + col));
  }
}

void round_group(const float* values, int64_t n, uint8_t* codes, float& scale) {
  const auto finite = [](float value) { return std::abs(value) <= std::numeric_limits<float>::max() ? value : 0; };
  float top = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, std::abs(finite(values[i])));
  scale = top / kLargestE4M3;
  if (scale < std::numeric_limits<float>::min()) scale = 0;  // near the smallest floats: zeros
  for (int64_t i = 0; i < n; ++i) codes[i] = scale > 0 ? nearest_e4m3(finite(values[i]) / scale) : uint8_t{0};
}

}  // namespace

void read_e4m3_row(const WeightSource& source, int64_t row, uint8_t* codes, float* scales) {
  const WeightPart* part = source.parts.data();
  for (; row >= part->rows; ++part) row -= part->rows;
  if (part->scheme == Scheme::kScaledE4M3) return copy_row(*part, row, codes, scales);
  std::vector<float> values(static_cast<size_t>(part->cols));
  decode_rows(*part, row, row + 1, values.data());
  for (int64_t col = 0; col < part->cols; col += kE4M3Together) {
    round_group(values.data() + col, std::min<int64_t>(kE4M3Together, part->cols - col), codes + col, *scales++);
  }
}

}  // namespace ashlar
