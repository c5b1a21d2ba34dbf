// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights as a checkpoint stores them: views of host memory, which a device packs (Ops::pack).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/scaled_matrix.h"
#include "device/tensor.h"

namespace ashlar {

/// How a checkpoint stores the numbers of a matrix. Each is a row of the table in weight_source.cc; those after kBF16
/// are blocks of GGUF files (quantised_blocks.h), the last ones numbers with scales in a place of their own
/// (base/scaled_matrix.h), by the bits that hold them.
enum class Scheme : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
  kScaled4,
  kScaled8,
  kScaledE4M3,
  kScaled16
};

std::string_view name_of(Scheme scheme);  ///< as files call it: "F32", "Q4_1"
/// The scheme of that name.
std::optional<Scheme> find_scheme(std::string_view name);
std::string scheme_names();  ///< "F32, F16, ..."
/// What a device keeps the numbers in. bf16 holds those that are stored so, and those of blocks well enough: it adds 5
/// % to the error that Q8_0 has already, and less than 0.1 % to those of 4 bits. All else is kept exact.
DType precision_of(Scheme scheme);
Scheme scheme_of(const ScaledMatrix& matrix);
int64_t group_of(Scheme scheme);  ///< columns that are stored together; rows have whole groups

/// What holds numbers, scales apart: integers of 4 bits where each 32 neighbours lie on 16 even steps, of 8 bits for
/// other blocks, E4M3 (e4m3_rows.h), or no less than what precision_of says.
enum class Numbers : uint8_t { kWhole, kE4M3, kInt8, kInt4 };
Numbers numbers_in(Scheme scheme);
/// What holds both: integers of 8 bits for integers.
Numbers common(Numbers a, Numbers b);

/// What a device that multiplies faster by fewer bits keeps of weights (of the vocabulary's at least 8, or the file's).
enum class KeptWeights : uint8_t {
  kAuto,   ///< as many bits as the file has, where it has blocks of integers or E4M3; all else as it is
  kExact,  ///< all as precision_of says
  kInt8,   ///< all in 8
  kInt4,   ///< all in 4
  kFp8,    ///< all in E4M3, of the vocabulary what is not stored so in 8 bits
};

/// Heads whose first `rotated` rows are stored with their halves interleaved: first row of the first half, first row of
/// the second, second row of the first, and so on. The other rows of a head lie in their own order, as all rows do
/// where `head` is 0.
struct InterleavedHeads {
  int64_t head = 0;  ///< rows
  int64_t rotated = 0;

  /// Where a row of the heads, one after the other, is stored.
  int64_t place_of(int64_t row) const {
    const int64_t in_head = head > 0 ? row % head : 0;
    if (in_head >= rotated) return row;
    const int64_t half = rotated / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
  }
};

/// Numbers in rows: of each row, every `group` columns take `group_bytes` bytes, one group after the other.
struct StoredRows {
  const std::byte* data = nullptr;  ///< of any alignment
  int64_t stride = 0;               ///< bytes from one row to the next
  int64_t group = 1;
  int64_t group_bytes = 0;
  InterleavedHeads interleaved;

  /// Where the group of column `col` begins, which must be the group's first.
  const std::byte* at(int64_t row, int64_t col) const {
    return data + place_of(row) * stride + col / group * group_bytes;
  }
  int64_t place_of(int64_t row) const { return interleaved.place_of(row); }
};

/// One matrix [rows, cols] of a checkpoint. What it points to outlives the calls it is passed to.
struct WeightPart {
  /// Rows that lie one after the other.
  WeightPart(std::string_view name, Scheme scheme, const void* data, int64_t rows, int64_t cols);
  /// Numbers with scales.
  WeightPart(std::string_view name, const ScaledMatrix& matrix);

  /// Rows [row, row + n_rows) of columns [col, col + n_cols), which begin and end with groups. Of interleaved heads
  /// only whole ones. E4M3 whose scales would no longer lie in groups of 128 columns counts as kScaled16.
  WeightPart block(int64_t row, int64_t n_rows, int64_t col, int64_t n_cols) const;

  std::string_view name;  ///< for errors
  Scheme scheme;
  int64_t rows;
  int64_t cols;
  StoredRows values;                     ///< of numbers with scales without data
  const ScaledMatrix* scaled = nullptr;  ///< those, of which this part has rows and columns from these on
  int64_t first_row = 0;
  int64_t first_col = 0;
};

/// Parts stacked along the outputs, which may differ in scheme, and a bias: y = x W^T + bias.
struct WeightSource {
  std::vector<WeightPart> parts;  ///< one at least, all of one number of columns
  std::vector<float> bias;        ///< empty, or one for every output

  int64_t rows() const;
  int64_t cols() const { return parts.front().cols; }
  DType precision() const;  ///< bf16 where that is enough for each part
  Numbers numbers() const;  ///< what holds those of every part
};

/// to[end - begin, cols] = rows [begin, end) of a part, exactly. The specification of every scheme.
void decode_rows(const WeightPart& part, int64_t begin, int64_t end, float* to);
/// The same for row `row` of the stacked parts. to: [cols].
void decode_row(const WeightSource& source, int64_t row, float* to);

/// The first element (row * cols + column) that is infinite or no number at all; of blocks the first of its block.
std::optional<int64_t> first_not_finite(const WeightPart& part);

}  // namespace ashlar
