// SPDX-License-Identifier: Apache-2.0
#include "device/weights/weight_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "device/weights/e4m3_rows.h"
#include "device/weights/quantised_blocks.h"

namespace ashlar {
namespace {

template <class T>
void widen(const WeightPart& part, int64_t row, float* to) {
  constexpr int64_t kAtOnce = 16;  // which the compiler makes vectors of
  const std::byte* from = part.values.at(row, 0);
  const auto next = [&from](auto& values) {
    std::memcpy(&values, from, sizeof(values));  // files guarantee no alignment
    from += sizeof(values);
  };
  int64_t i = 0;
  for (; i + kAtOnce <= part.cols; i += kAtOnce) {
    T values[kAtOnce];
    next(values);
    for (int64_t j = 0; j < kAtOnce; ++j) to[i + j] = to_float(values[j]);
  }
  for (; i < part.cols; ++i) {
    T value;
    next(value);
    to[i] = to_float(value);
  }
}

// Of n numbers whose exponent has these bits: the first that is infinite or no number at all, or n. Several at a time:
// of a number whose exponent is all ones, and of no other, the exponent and one more carry into the sign.
template <class Bits, Bits exponent>
int64_t first_in_row(const WeightPart& part, int64_t row) {
  const std::byte* from = part.values.at(row, 0);
  const int64_t n = part.cols;
  constexpr int64_t kAtOnce = sizeof(uint64_t) / sizeof(Bits);
  constexpr uint64_t kEach = ~uint64_t{0} / static_cast<Bits>(~Bits{0});  // a one for each number
  constexpr uint64_t kMask = kEach * exponent;
  constexpr uint64_t kOne = kEach * static_cast<Bits>(exponent & -exponent);
  constexpr uint64_t kSign = kEach * static_cast<Bits>(exponent + (exponent & -exponent));
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    uint64_t numbers;
    std::memcpy(&numbers, from + i * static_cast<int64_t>(sizeof(Bits)), sizeof numbers);
    if ((((numbers & kMask) + kOne) & kSign) != 0) break;
  }
  for (; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof(Bits)), sizeof bits);
    if ((bits & exponent) == exponent) break;
  }
  return i;
}

template <const BlockFormat& format>
void decode_blocks(const WeightPart& part, int64_t row, float* to) {
  const std::byte* block = part.values.at(row, 0);
  for (int64_t i = 0; i < part.cols; i += format.numbers, block += format.bytes) format.decode(block, to + i);
}

template <const BlockFormat& format>
int64_t first_block(const WeightPart& part, int64_t row) {
  const std::byte* block = part.values.at(row, 0);
  int64_t i = 0;
  while (i < part.cols && format.is_finite(block)) {
    i += format.numbers;
    block += format.bytes;
  }
  return i;
}

void decode_scaled(const WeightPart& part, int64_t row, float* to) {
  part.scaled->decode(part.first_row + part.values.place_of(row), part.first_col, part.cols, to);
}

int64_t first_scaled(const WeightPart& part, int64_t row) {
  if (part.scaled->is_finite(part.first_row + part.values.place_of(row))) return part.cols;
  std::vector<float> values(static_cast<size_t>(part.cols));
  decode_scaled(part, row, values.data());
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return bad == values.end() ? 0 : bad - values.begin();  // 0: a scale by which other numbers would be infinite
}

/// What there is to know of a scheme.
struct SchemeRow {
  Scheme scheme;
  std::string_view name;
  DType precision;  ///< see precision_of
  void (*decode)(const WeightPart& part, int64_t row, float* to);
  int64_t (*first_not_finite)(const WeightPart& part, int64_t row);  ///< or cols
  int64_t bytes;                                                     ///< of a number
  Numbers numbers = Numbers::kWhole;                                 ///< see numbers_in
  const BlockFormat* blocks = nullptr;                               ///< of several numbers together
  int64_t together = 1;  ///< columns of a matrix with scales that devices keep under one scale, and cuts leave whole
  /// What a part of it is whose first column a cut put between two that stand under one scale.
  Scheme parted = scheme;

  int64_t group() const { return blocks != nullptr ? blocks->numbers : 1; }
  int64_t group_bytes() const { return blocks != nullptr ? blocks->bytes : bytes; }
};

template <const BlockFormat& format>
constexpr SchemeRow in_blocks(Scheme scheme, std::string_view name, Numbers numbers = Numbers::kInt8) {
  return {scheme, name, DType::kBF16, decode_blocks<format>, first_block<format>, 0, numbers, &format};
}

constexpr SchemeRow with_scales(Scheme scheme, std::string_view name, Numbers numbers, int64_t together,
                                Scheme parted) {
  return {scheme, name, DType::kBF16, decode_scaled, first_scaled, 0, numbers, nullptr, together, parted};
}

constexpr SchemeRow kSchemes[] = {
    {Scheme::kF32, "F32", DType::kF32, widen<float>, first_in_row<uint32_t, 0x7F800000>, 4},
    {Scheme::kF16, "F16", DType::kF32, widen<Float16>, first_in_row<uint16_t, 0x7C00>, 2},
    {Scheme::kBF16, "BF16", DType::kBF16, widen<BFloat16>, first_in_row<uint16_t, 0x7F80>, 2},
    in_blocks<kQ8_0>(Scheme::kQ8_0, "Q8_0"),
    in_blocks<kQ4_0>(Scheme::kQ4_0, "Q4_0", Numbers::kInt4),
    in_blocks<kQ4_1>(Scheme::kQ4_1, "Q4_1", Numbers::kInt4),
    in_blocks<kQ5_0>(Scheme::kQ5_0, "Q5_0"),
    in_blocks<kQ5_1>(Scheme::kQ5_1, "Q5_1"),
    in_blocks<kQ2_K>(Scheme::kQ2_K, "Q2_K"),
    in_blocks<kQ3_K>(Scheme::kQ3_K, "Q3_K"),
    in_blocks<kQ4_K>(Scheme::kQ4_K, "Q4_K", Numbers::kInt4),
    in_blocks<kQ5_K>(Scheme::kQ5_K, "Q5_K"),
    in_blocks<kQ6_K>(Scheme::kQ6_K, "Q6_K"),
    in_blocks<kIq4Nl>(Scheme::kIq4Nl, "IQ4_NL"),
    in_blocks<kIq4Xs>(Scheme::kIq4Xs, "IQ4_XS"),
    in_blocks<kMxfp4>(Scheme::kMxfp4, "MXFP4"),
    with_scales(Scheme::kScaled4, "4 bits with scales", Numbers::kInt4, 32, Scheme::kScaled4),
    with_scales(Scheme::kScaled8, "8 bits with scales", Numbers::kInt8, 32, Scheme::kScaled8),
    with_scales(Scheme::kScaledE4M3, "E4M3 with scales", Numbers::kE4M3, kE4M3Together, Scheme::kScaled16),
    with_scales(Scheme::kScaled16, "numbers with scales", Numbers::kWhole, 1, Scheme::kScaled16),
};

const SchemeRow& row_of(Scheme scheme) {
  const SchemeRow& row = kSchemes[static_cast<size_t>(scheme)];
  ASHLAR_CHECK(row.scheme == scheme);
  return row;
}

}  // namespace

std::string_view name_of(Scheme scheme) { return row_of(scheme).name; }

std::optional<Scheme> find_scheme(std::string_view name) {
  const SchemeRow* found =
      std::find_if(std::begin(kSchemes), std::end(kSchemes), [name](const SchemeRow& row) { return row.name == name; });
  return found == std::end(kSchemes) ? std::nullopt : std::optional(found->scheme);
}

std::string scheme_names() {
  std::string names;
  for (const SchemeRow& row : kSchemes) {
    if (row.decode != decode_scaled) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names;
}

DType precision_of(Scheme scheme) { return row_of(scheme).precision; }
int64_t group_of(Scheme scheme) { return row_of(scheme).group(); }

Scheme scheme_of(const ScaledMatrix& matrix) {
  if (matrix.is_e4m3_in_groups_of(kE4M3Together)) return Scheme::kScaledE4M3;
  const int32_t bits = matrix.bits_in_groups_of_32();
  return bits == 4 ? Scheme::kScaled4 : bits == 8 ? Scheme::kScaled8 : Scheme::kScaled16;
}

Numbers numbers_in(Scheme scheme) { return row_of(scheme).numbers; }

Numbers common(Numbers a, Numbers b) {
  if (a == b) return a;
  const auto is_integer = [](Numbers numbers) { return numbers == Numbers::kInt8 || numbers == Numbers::kInt4; };
  return is_integer(a) && is_integer(b) ? Numbers::kInt8 : Numbers::kWhole;
}

Numbers WeightSource::numbers() const {
  Numbers all = numbers_in(parts.front().scheme);
  for (const WeightPart& part : parts) all = common(all, numbers_in(part.scheme));
  return all;
}

WeightPart::WeightPart(std::string_view name, Scheme scheme, const void* data, int64_t rows, int64_t cols)
    : name(name), scheme(scheme), rows(rows), cols(cols) {
  const SchemeRow& as = row_of(scheme);
  ASHLAR_CHECK_EQ(cols % as.group(), 0);
  values = {
      static_cast<const std::byte*>(data), cols / as.group() * as.group_bytes(), as.group(), as.group_bytes(), {}};
}

WeightPart::WeightPart(std::string_view name, const ScaledMatrix& matrix)
    : name(name), scheme(scheme_of(matrix)), rows(matrix.rows), cols(matrix.cols), scaled(&matrix) {
  if (const int64_t together = row_of(scheme).together; cols % together == 0) values.group = together;
}

WeightPart WeightPart::block(int64_t row, int64_t n_rows, int64_t col, int64_t n_cols) const {
  ASHLAR_CHECK(row + n_rows <= rows && col + n_cols <= cols);
  WeightPart out = *this;
  out.rows = n_rows;
  out.cols = n_cols;
  const int64_t head = values.interleaved.head;
  ASHLAR_CHECK(head == 0 || (row % head == 0 && n_rows % head == 0));
  out.first_row += row;
  out.first_col += col;
  const SchemeRow& as = row_of(scheme);
  const bool has_groups = scaled != nullptr && scaled->scale_cols < scaled->cols;
  if (has_groups && out.first_col % as.together != 0) out.scheme = as.parted;
  if (values.data != nullptr) out.values.data = values.at(row, col);
  return out;
}

int64_t WeightSource::rows() const {
  int64_t n = 0;
  for (const WeightPart& part : parts) {
    ASHLAR_CHECK_EQ(part.cols, parts.front().cols);
    n += part.rows;
  }
  ASHLAR_CHECK(bias.empty() || static_cast<int64_t>(bias.size()) == n);
  return n;
}

DType WeightSource::precision() const {
  const bool narrow = std::all_of(parts.begin(), parts.end(),
                                  [](const WeightPart& part) { return row_of(part.scheme).precision == DType::kBF16; });
  return narrow ? DType::kBF16 : DType::kF32;
}

void decode_rows(const WeightPart& part, int64_t begin, int64_t end, float* to) {
  const auto decode = row_of(part.scheme).decode;
  for (int64_t row = begin; row < end; ++row, to += part.cols) decode(part, row, to);
}

void decode_row(const WeightSource& source, int64_t row, float* to) {
  const WeightPart* part = source.parts.data();
  for (; row >= part->rows; ++part) row -= part->rows;
  decode_rows(*part, row, row + 1, to);
}

std::optional<int64_t> first_not_finite(const WeightPart& part) {
  const auto first = row_of(part.scheme).first_not_finite;
  for (int64_t row = 0; row < part.rows; ++row) {
    const int64_t col = first(part, row);
    if (col < part.cols) return row * part.cols + col;
  }
  return std::nullopt;
}

}  // namespace ashlar
