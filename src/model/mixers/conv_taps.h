// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weights of a convolution over each channel by itself.

#include <string>
#include <vector>

#include "model/binding/weight_binder.h"

namespace ashlar {

/// Stored as [channels, 1, taps] or [channels, taps], wanted as [taps, channels]: rows of neighbouring channels are
/// what devices read.
inline std::vector<float> read_taps(WeightBinder& binder, const std::string& name, int32_t channels, int32_t taps) {
  std::vector<int64_t> shape = {channels, 1, taps};
  if (binder.dimensions_of(name) == 2) shape = {channels, taps};
  const std::vector<float> stored = binder.values(name, shape);
  std::vector<float> wanted(stored.size());
  for (int32_t c = 0; c < channels; ++c) {
    for (int32_t t = 0; t < taps; ++t) {
      wanted[static_cast<size_t>(t) * channels + c] = stored[static_cast<size_t>(c) * taps + t];
    }
  }
  return wanted;
}

}  // namespace ashlar
