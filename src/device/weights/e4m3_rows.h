// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of weights as E4M3 (base/e4m3.h) with a scale for every 128 columns of a row: value = scale * number, in fp32
// rounded once. Files with blocks of 128 x 128 or one scale for a row have their scale repeated, 0.25 bits a number, so
// that one form holds whatever a file has and a row depends on no other.

#include <cstdint>

#include "device/weights/weight_source.h"

namespace ashlar {

/// Columns that share a scale.
inline constexpr int32_t kE4M3Together = 128;
constexpr int64_t e4m3_groups(int64_t cols) { return (cols + kE4M3Together - 1) / kE4M3Together; }

/// Row `row` of the stacked parts. Numbers that are stored so stay as they are. Others are rounded: the largest of 128
/// becomes 448, the largest E4M3, and what is not finite 0. codes: [cols], scales: [e4m3_groups(cols)].
void read_e4m3_row(const WeightSource& source, int64_t row, uint8_t* codes, float* scales);

}  // namespace ashlar
