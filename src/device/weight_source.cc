#include "device/weight_source.h"

#include <cstring>

#include "base/bf16.h"
#include "base/check.h"

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
int64_t first_in_row(const std::byte* from, int64_t n) {
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

/// What there is to know of a scheme.
struct SchemeRow {
  Scheme scheme;
  std::string_view name;
  int64_t group;        ///< columns that are stored together
  int64_t group_bytes;  ///< of values
  void (*decode)(const WeightPart& part, int64_t row, float* to);
  int64_t (*first_not_finite)(const std::byte* row, int64_t cols);  ///< or cols
};

constexpr SchemeRow kSchemes[] = {
    {Scheme::kF32, "f32", 1, 4, widen<float>, first_in_row<uint32_t, 0x7F800000>},
    {Scheme::kF16, "f16", 1, 2, widen<Float16>, first_in_row<uint16_t, 0x7C00>},
    {Scheme::kBF16, "bf16", 1, 2, widen<BFloat16>, first_in_row<uint16_t, 0x7F80>},
};

const SchemeRow& row_of(Scheme scheme) {
  const SchemeRow& row = kSchemes[static_cast<size_t>(scheme)];
  ASHLAR_CHECK(row.scheme == scheme);
  return row;
}

}  // namespace

std::string_view name_of(Scheme scheme) { return row_of(scheme).name; }

WeightPart::WeightPart(std::string_view name, Scheme scheme, const void* data, int64_t rows, int64_t cols)
    : name(name), scheme(scheme), rows(rows), cols(cols) {
  const SchemeRow& as = row_of(scheme);
  ASHLAR_CHECK_EQ(cols % as.group, 0);
  values = {static_cast<const std::byte*>(data), cols / as.group * as.group_bytes, as.group, as.group_bytes};
}

WeightPart WeightPart::block(int64_t row, int64_t n_rows, int64_t col, int64_t n_cols) const {
  ASHLAR_CHECK(row + n_rows <= rows && col + n_cols <= cols);
  WeightPart out = *this;
  out.rows = n_rows;
  out.cols = n_cols;
  for (StoredRows* stored : {&out.values, &out.scales, &out.zeros}) {
    if (stored->data != nullptr) stored->data = stored->at(row, col);
  }
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

std::optional<Scheme> WeightSource::scheme() const {
  for (const WeightPart& part : parts) {
    if (part.scheme != parts.front().scheme) return std::nullopt;
  }
  return parts.front().scheme;
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
    const int64_t col = first(part.values.at(row, 0), part.cols);
    if (col < part.cols) return row * part.cols + col;
  }
  return std::nullopt;
}

}  // namespace ashlar
