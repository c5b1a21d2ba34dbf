// SPDX-License-Identifier: Apache-2.0
#include "base/scaled_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "base/e4m3.h"

namespace ashlar {
namespace {

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

float e2m1(int code) {
  const int exponent = code >> 1 & 3, mantissa = code & 1;
  const float magnitude =
      exponent == 0 ? 0.5F * static_cast<float>(mantissa) : std::ldexp(static_cast<float>(2 + mantissa), exponent - 2);
  return code >= 8 ? -magnitude : magnitude;
}

float e8m0(uint8_t code) {
  if (code == 255) return kNotANumber;
  return std::bit_cast<float>(code == 0 ? 0x00400000U : uint32_t{code} << 23);
}

using Values = std::array<float, 256>;  // of each code

template <class Value>
Values values_of(int count, const Value& value) {
  Values values{};
  for (int code = 0; code < count; ++code) values[static_cast<size_t>(code)] = value(code);
  return values;
}

const Values& values_of(SmallNumbers::Kind kind, int32_t bits) {
  static const Values kUnsigned = values_of(256, [](int code) { return static_cast<float>(code); });
  static const Values kBytes = values_of(256, [](int code) { return static_cast<float>(static_cast<int8_t>(code)); });
  static const Values kNibbles =
      values_of(16, [](int code) { return static_cast<float>(code < 8 ? code : code - 16); });
  static const Values kPairs = values_of(4, [](int code) { return static_cast<float>(code < 2 ? code : code - 4); });
  static const Values kE4M3 = values_of(256, [](int code) { return e4m3_value(static_cast<uint8_t>(code)); });
  static const Values kE2M1 = values_of(16, e2m1);
  switch (kind) {
    case SmallNumbers::Kind::kSigned:
      return bits == 8 ? kBytes : bits == 4 ? kNibbles : kPairs;
    case SmallNumbers::Kind::kE4M3:
      return kE4M3;
    case SmallNumbers::Kind::kE2M1:
      return kE2M1;
    case SmallNumbers::Kind::kUnsigned:
      break;
  }
  return kUnsigned;
}

/// Reads along a row.
struct RowReader {
  RowReader(const SmallNumbers& numbers, int64_t row)
      : numbers(numbers),
        values(values_of(numbers.kind, numbers.bits)),
        mask((1U << numbers.bits) - 1),
        shift(std::countr_zero(static_cast<uint32_t>(numbers.together))),
        place(numbers.words_down ? static_cast<int32_t>(row % numbers.together) : 0),
        data(numbers.data + (numbers.words_down ? row / numbers.together : row) * numbers.row_stride) {}

  float at(int64_t col) const {
    const int64_t word = numbers.words_down ? col : col >> shift;
    const auto in_word = static_cast<size_t>(numbers.words_down ? place : col & (numbers.together - 1));
    const int32_t bit = numbers.places[in_word] * numbers.bits;
    const auto byte = static_cast<uint32_t>(data[word * numbers.col_stride + bit / 8]);
    return values[byte >> (bit % 8) & mask];
  }

  const SmallNumbers& numbers;
  const Values& values;
  uint32_t mask;
  int32_t shift;  // of a column to its word
  int32_t place;  // in a word of neighbours below each other
  const std::byte* data;
};

}  // namespace

SmallNumbers SmallNumbers::in_rows(const std::byte* data, Kind kind, int32_t bits, int64_t row_bytes) {
  SmallNumbers numbers;
  numbers.data = data;
  numbers.kind = kind;
  numbers.bits = bits;
  numbers.together = 8 / bits;
  numbers.row_stride = row_bytes;
  numbers.col_stride = 1;
  return numbers;
}

float SmallNumbers::at(int64_t row, int64_t col) const { return RowReader(*this, row).at(col); }

int64_t Scales::bytes_of(Type type) {
  return type == Type::kF32 ? 4 : type == Type::kF16 || type == Type::kBF16 ? 2 : 1;
}

float Scales::at(int64_t row, int64_t group) const {
  const std::byte* from = data + row * row_stride + group * col_stride;
  switch (type) {
    case Type::kF32:
      return read<float>(from) / divisor;
    case Type::kF16:
      return to_float(read<Float16>(from)) / divisor;
    case Type::kBF16:
      return to_float(read<BFloat16>(from)) / divisor;
    case Type::kE4M3:
      return e4m3_value(static_cast<uint8_t>(*from)) / divisor;
    case Type::kE8M0:
      break;
  }
  return e8m0(static_cast<uint8_t>(*from)) / divisor;
}

int64_t ScaledMatrix::group_of(int64_t col) const {
  if (column_groups == nullptr) return col / scale_cols;
  return read<int32_t>(column_groups + col * int64_t{sizeof(int32_t)});
}

float ScaledMatrix::zero_of(int64_t row, int64_t group) const {
  return zeros ? zeros->at(row / scale_rows, group) + zero : zero;
}

void ScaledMatrix::decode(int64_t row, int64_t col, int64_t n, float* to) const {
  const RowReader reader(numbers, row);
  const int64_t end = col + n;
  if (column_groups != nullptr) {  // neighbours are of different groups, of which a row has few
    std::vector<float> off(static_cast<size_t>(groups())), scale(off.size());
    for (int64_t group = 0; group < groups(); ++group) {
      off[static_cast<size_t>(group)] = zero_of(row, group);
      scale[static_cast<size_t>(group)] = scales.at(row / scale_rows, group);
    }
    for (; col < end; ++col) {
      const auto group = static_cast<size_t>(group_of(col));
      *to++ = (reader.at(col) - off[group]) * scale[group];
    }
    return;
  }
  while (col < end) {
    const int64_t group = group_of(col);
    const int64_t same = std::min(end, (group + 1) * scale_cols);
    const float off = zero_of(row, group);
    const float scale = scales.at(row / scale_rows, group);
    for (; col < same; ++col) *to++ = (reader.at(col) - off) * scale;
  }
}

int32_t ScaledMatrix::bits_in_groups_of_32() const {
  constexpr int64_t kGroup = 32;
  if (numbers.kind == SmallNumbers::Kind::kE4M3) return 16;
  if (column_groups == nullptr) {
    if (scale_cols % kGroup != 0 && scale_cols < cols) return 16;
  } else {
    for (int64_t col = 0; col < cols; ++col) {
      if (group_of(col) != group_of(col / kGroup * kGroup)) return 16;
    }
  }
  if (numbers.is_integer() && numbers.bits <= 4) return 4;
  if (numbers.kind == SmallNumbers::Kind::kE2M1) return 8;  // whole numbers up to 12, doubled
  // Of 8 bits: as many above zero as below it, or else more than a byte with a sign holds.
  const float middle = numbers.kind == SmallNumbers::Kind::kUnsigned ? 128 : 0;
  if (!zeros) return zero == middle ? 8 : 16;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups(); ++group) {
      if (zero_of(row, group) != middle) return 16;
    }
  }
  return 8;
}

bool ScaledMatrix::is_e4m3_in_groups_of(int64_t columns) const {
  return numbers.kind == SmallNumbers::Kind::kE4M3 && !zeros && zero == 0 && column_groups == nullptr &&
         (scale_cols % columns == 0 || scale_cols >= cols);
}

bool ScaledMatrix::is_finite(int64_t row) const {
  constexpr float kLargest = 512;  // of any number less any zero point
  for (int64_t group = 0; group < groups(); ++group) {
    if (!std::isfinite(scales.at(row / scale_rows, group) * kLargest)) return false;
  }
  if (numbers.kind != SmallNumbers::Kind::kE4M3) return true;
  const std::byte* codes = numbers.data + row * numbers.row_stride;  // a byte each (in_rows)
  return std::none_of(codes, codes + cols, [](std::byte code) { return (code & std::byte{127}) == std::byte{127}; });
}

}  // namespace ashlar
