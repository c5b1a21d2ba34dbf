// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weights of a convolution over each channel by itself.

#include <string>
#include <vector>

#include "model/binding/weight_binder.h"

namespace ashlar {

/// Stored as [channels, 1, taps], wanted as [taps, channels]: rows of neighbouring channels are what devices read.
inline std::vector<float> read_taps(WeightBinder& binder, const std::string& name, int32_t channels, int32_t taps) {
  const std::vector<WeightPart> stored = binder.matrices(name, channels, 1, taps);
  std::vector<float> wanted(static_cast<size_t>(taps) * static_cast<size_t>(channels));
  std::vector<float> channel(static_cast<size_t>(taps));
  for (int32_t c = 0; c < channels; ++c) {
    decode_rows(stored[static_cast<size_t>(c)], 0, 1, channel.data());
    for (int32_t t = 0; t < taps; ++t) wanted[static_cast<size_t>(t) * channels + c] = channel[static_cast<size_t>(t)];
  }
  return wanted;
}

}  // namespace ashlar
