// SPDX-License-Identifier: Apache-2.0
#pragma once
// The formats of packed weights: one table, which holds all that the device does with a format.

#include <cstdint>
#include <optional>
#include <string_view>

#include "device/cpu/isa/kernels.h"
#include "device/ops.h"
#include "device/weights/weight_source.h"

namespace ashlar::cpu {

/// One way for a weight to lie in panels (layouts: kernels.h).
struct WeightFormat {
  std::string_view name;
  std::optional<DType> precision;  ///< of the sources that it is for (WeightSource::precision); none: of all
  Numbers numbers;                 ///< what it is for (kept_numbers); whole: whatever others do not take
  int32_t bits;                    ///< of a value
  bool for_drafts;                 ///< for products that propose, of such formats; otherwise for others
  bool may_round_rows;             ///< some path rounds what it multiplies with, so it is not for routers
  int32_t max_k;                   ///< deepest product
  LinearKernels Kernels::*kernels;
  int64_t (*panel_bytes)(int64_t k);
  /// What pack_block wants of a row of a weight of k columns, to[0..k): its values, or its codes with their scales.
  /// Zeros stand for a row of zeros.
  void (*read_row)(const WeightSource& source, int64_t row, float* to);
  /// Fills block `block` of a panel, which is zeroed, with columns that lie at rows[column * stride + (0..k)).
  void (*pack_block)(const float* rows, int64_t stride, int32_t k, int32_t block, std::byte* panel);
  /// to[0..k) = scale * column `column` of a panel.
  void (*read_column)(const std::byte* panel, int32_t column, int32_t k, float scale, float* to);
};

/// A hash of what a format makes of certain values: another layout or rounding shows in it.
uint64_t mark_of(const WeightFormat& format);

/// The format for values of a source of this precision, products of depth k, and their use on this path, that are kept
/// as `numbers` (kept_numbers).
const WeightFormat& format_for(const Kernels& kernels, DType precision, int64_t k, Products products, Numbers numbers);

}  // namespace ashlar::cpu
