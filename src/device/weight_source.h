#pragma once
// Weights as a checkpoint stores them: views of host memory, which a device packs (Ops::pack).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ashlar {

/// How a checkpoint stores the numbers of a matrix. Each is a row of the table in weight_source.cc.
enum class Scheme : uint8_t { kF32, kF16, kBF16 };

std::string_view name_of(Scheme scheme);  ///< "f32"

/// Numbers in rows: of each row, every `group` columns take `group_bytes` bytes, one group behind the other.
struct StoredRows {
  const std::byte* data = nullptr;  ///< of any alignment
  int64_t stride = 0;               ///< bytes from one row to the next
  int64_t group = 1;
  int64_t group_bytes = 0;

  /// Where the group of column `col` begins, which must be the group's first.
  const std::byte* at(int64_t row, int64_t col) const { return data + row * stride + col / group * group_bytes; }
};

/// One matrix [rows, cols] of a checkpoint. What it points to outlives the calls it is passed to.
struct WeightPart {
  /// Rows that lie one behind the other, of a scheme without scales.
  WeightPart(std::string_view name, Scheme scheme, const void* data, int64_t rows, int64_t cols);

  /// Rows [row, row + n_rows) of columns [col, col + n_cols), which begin and end with groups.
  WeightPart block(int64_t row, int64_t n_rows, int64_t col, int64_t n_cols) const;

  std::string_view name;  ///< for errors
  Scheme scheme;
  int64_t rows;
  int64_t cols;
  StoredRows values;
  StoredRows scales;  ///< without data where the scheme has none in a place of their own
  StoredRows zeros;   ///< the same
};

/// Parts stacked along the outputs, which may differ in scheme, and a bias: y = x W^T + bias.
struct WeightSource {
  std::vector<WeightPart> parts;  ///< one at least, all of one number of columns
  std::vector<float> bias;        ///< empty, or one for every output

  int64_t rows() const;
  int64_t cols() const { return parts.front().cols; }
  /// The scheme of all parts, or none if they differ.
  std::optional<Scheme> scheme() const;
};

/// to[end - begin, cols] = rows [begin, end) of a part, exactly. The specification of every scheme.
void decode_rows(const WeightPart& part, int64_t begin, int64_t end, float* to);
/// The same for row `row` of the stacked parts. to: [cols].
void decode_row(const WeightSource& source, int64_t row, float* to);

/// The first element (row * cols + column) that is infinite or no number at all.
std::optional<int64_t> first_not_finite(const WeightPart& part);

}  // namespace ashlar
