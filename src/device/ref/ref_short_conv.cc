// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "device/ref/ref_kernels.h"

namespace ashlar::ref {

void short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  const int32_t channels = conv.shape.channels, before = conv.shape.taps - 1;
  ASHLAR_CHECK(in.cols == conv.shape.projected_width() && out.cols == channels);
  const StatePlane& plane = conv.states;
  std::vector<float> window(static_cast<size_t>(conv.shape.state_floats())), row(static_cast<size_t>(channels));
  const auto push = [&](const float* newest) {
    window.insert(window.end(), newest, newest + channels);
    window.erase(window.begin(), window.begin() + channels);
  };
  const auto copy_to = [&](std::byte* state) {
    std::copy(window.begin(), window.end(), reinterpret_cast<float*>(state));
  };
  for_each_sequence(conv.rows, [&](int32_t first, int32_t n) {
    const StateSpan& span = conv.rows.states[conv.rows.tables[first]];
    const bool begins = conv.rows.positions[first] == 0;
    const auto* const state = reinterpret_cast<const float*>(plane.state(span.slot));
    for (size_t i = 0; i < window.size(); ++i) window[i] = begins ? 0.0F : state[i];
    for (int32_t i = 0; i < span.replays && !begins; ++i) {
      push(reinterpret_cast<const float*>(plane.log(span.slot, i)));
    }
    const int32_t kept = n - span.logged(n);
    for (int32_t r = 0; r < n; ++r) {
      if (r == kept) copy_to(plane.state(span.slot));
      const float* const b = in.row(first + r);
      for (int32_t c = 0; c < channels; ++c) {
        row[static_cast<size_t>(c)] = b[c] * b[2 * channels + c];
        double sum = conv.bias != nullptr ? conv.bias[c] : 0.0;
        for (int32_t t = 0; t < before; ++t) {
          const int64_t at = int64_t{t} * channels + c;
          sum += static_cast<double>(conv.taps[at]) * window[static_cast<size_t>(at)];
        }
        sum += static_cast<double>(conv.taps[int64_t{before} * channels + c]) * row[static_cast<size_t>(c)];
        out.row(first + r)[c] = static_cast<float>(b[channels + c] * sum);
      }
      push(row.data());
      if (r >= kept) std::copy(row.begin(), row.end(), reinterpret_cast<float*>(plane.log(span.slot, r - kept)));
      for (const StateSpan::Save& save : span.saves) {
        if (save.row == r) copy_to(plane.snapshot(save.snapshot));
      }
    }
  });
}

}  // namespace ashlar::ref
