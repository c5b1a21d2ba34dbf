// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices of quantised checkpoints: small numbers, and their scales and zero points in places of their own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ashlar {

/// A matrix of numbers of 2, 4 or 8 bits. As many neighbours as `together`, along one dimension, share a word of whole
/// bytes, the first in its lowest bits; any alignment.
struct SmallNumbers {
  /// What a number of a few bits means.
  enum class Kind : uint8_t {
    kUnsigned,
    kSigned,  ///< two's complement
    kE4M3,    ///< 8 bits: sign, 4 bits of exponent, 3 of mantissa, no infinities (OCP, "fn")
    kE2M1,    ///< 4 bits: sign, 2 bits of exponent, 1 of mantissa (OCP)
  };

  const std::byte* data = nullptr;
  Kind kind = Kind::kUnsigned;
  int32_t bits = 8;
  int32_t together = 1;     ///< a power of two, at most 16
  bool words_down = false;  ///< neighbours of a word differ in the row, otherwise in the column
  int64_t row_stride = 0;   ///< bytes to the word of the next rows
  int64_t col_stride = 0;   ///< bytes to the word of the next columns
  /// Where the neighbours of a word lie in it.
  std::array<uint8_t, 16> places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  /// [rows, cols] with rows of `bits` each one after the other.
  static SmallNumbers in_rows(const std::byte* data, Kind kind, int32_t bits, int64_t row_bytes);
  float at(int64_t row, int64_t col) const;
  bool is_integer() const { return kind == Kind::kUnsigned || kind == Kind::kSigned; }
};

/// A matrix of scales.
struct Scales {
  enum class Type : uint8_t {
    kF32,
    kF16,
    kBF16,
    kE4M3,
    kE8M0,  ///< 8 bits: 2^(bits - 127), 255 is no number (OCP)
  };

  const std::byte* data = nullptr;
  Type type = Type::kF32;
  int64_t row_stride = 0;  ///< bytes to the scale of the next rows; 0: the same for all
  int64_t col_stride = 0;  ///< bytes to the scale of the next group of columns
  float divisor = 1;       ///< of all scales

  float at(int64_t row, int64_t group) const;
  static int64_t bytes_of(Type type);
};

/// value = (number - zero) * scale, of [rows, cols]: in fp32, each of the two operations rounded once. All that it
/// points to lives elsewhere.
struct ScaledMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  SmallNumbers numbers;
  Scales scales;
  int64_t scale_rows = 1;                    ///< rows that share a scale
  int64_t scale_cols = 1;                    ///< columns that share a scale and a zero point
  std::optional<SmallNumbers> zeros;         ///< [groups of rows, of columns], as scales
  float zero = 0;                            ///< more than `zeros`, or instead of them
  const std::byte* column_groups = nullptr;  ///< int32 of each column: its group; null: they lie in order

  /// to[0..n) = row `row` from column `col` on.
  void decode(int64_t row, int64_t col, int64_t n, float* to) const;
  int64_t groups() const { return (cols + scale_cols - 1) / scale_cols; }  ///< of columns
  int64_t group_of(int64_t col) const;
  float zero_of(int64_t row, int64_t group) const;

  /// How many bits hold the numbers of each 32 neighbours, next to a scale and a lowest value: 4 where they are at most
  /// 16 even steps, 8 where they are whole numbers up to 128, both with one scale; else 16.
  int32_t bits_in_groups_of_32() const;
  /// Whether each number is E4M3 times a scale of at least this many neighbours along its row, or of all of them.
  bool is_e4m3_in_groups_of(int64_t columns) const;
  /// Whether all of a row are finite numbers.
  bool is_finite(int64_t row) const;
};

}  // namespace ashlar
