// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gated short convolution of a layer: what its op is given, and how its state lies in memory. Source: LFM2 (Liquid
// AI, transformers).

#include <cstdint>

#include "device/rows.h"

namespace ashlar {

inline constexpr int32_t kMaxShortConvTaps = 16;

struct ShortConvShape {
  int32_t channels = 0;
  int32_t taps = 0;  ///< the row itself and the taps - 1 rows before it; at most kMaxShortConvTaps

  /// Columns of the op's input: b, c and x, `channels` of each.
  int32_t projected_width() const { return 3 * channels; }
  // In floats, on every device. A state is b * x of the last taps - 1 rows, oldest first; a row of the log is that of
  // the row.
  int64_t state_floats() const { return int64_t{taps - 1} * channels; }
  int64_t log_floats() const { return channels; }
  bool operator==(const ShortConvShape&) const = default;
};

/// Of a forward: the weights of a layer in device memory, whose rows, and where their states lie. Rows of a sequence
/// are consecutive.
struct ShortConv {
  const ShortConvShape& shape;
  const float* taps = nullptr;  ///< [taps, channels], that of the row itself last
  const float* bias = nullptr;  ///< [channels], or null for none
  const Rows& rows;
  StatePlane states;
};

}  // namespace ashlar
