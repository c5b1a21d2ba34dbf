#include "device/cpu/linear/group_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ashlar::cpu {
namespace {

constexpr float kSteps = 15;       // of 4 bits
constexpr float kWhole = 3 << 22;  // what is added to a small float and taken off again has no fraction

float nearest(float value) { return value + kWhole - kWhole; }

/// A grid of even steps, and how the values of a group lie on it. Loops are over whole groups, so that the compiler
/// makes vectors of them.
struct Grid {
  float scale = 0;
  float lowest = 0;
  float wholes[kGroup] = {};
  float off = 0;  ///< sum of the squares of what is lost

  void place(const float* values) {
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (int32_t i = 0; i < kGroup; ++i) {
      const float at = (values[i] - lowest) * inverse;
      wholes[i] = nearest(at < 0 ? 0 : at > kSteps ? kSteps : at);
    }
    float lost[kGroup];
    for (int32_t i = 0; i < kGroup; ++i) {
      const float rest = values[i] - (lowest + scale * wholes[i]);
      lost[i] = rest * rest;
    }
    off = 0;
    for (int32_t i = 0; i < kGroup; ++i) off += lost[i];
  }
  /// The line through values over wholes that loses least.
  bool refit(const float* values) {
    float sum_w = 0, sum_ww = 0, sum_v = 0, sum_wv = 0;
    for (int32_t i = 0; i < kGroup; ++i) {
      sum_w += wholes[i];
      sum_ww += wholes[i] * wholes[i];
      sum_v += values[i] - lowest;
      sum_wv += (values[i] - lowest) * wholes[i];
    }
    const float spread = kGroup * sum_ww - sum_w * sum_w;
    if (spread < 0.5F) return false;
    scale = (kGroup * sum_wv - sum_w * sum_v) / spread;
    lowest += (sum_v - scale * sum_w) / kGroup;
    return scale > 0;
  }
  /// What f16 holds of it.
  void narrow() {
    scale = to_float(to_f16(scale));
    lowest = to_float(to_f16(lowest));
  }
};

// Whether all values are whole steps of `scale` from the lowest on.
bool lies_on(const float* values, float lowest, float scale) {
  for (int32_t i = 0; i < kGroup; ++i) {
    const float at = (values[i] - lowest) / scale;
    if (std::abs(at - nearest(at)) > 0.01F) return false;
  }
  return true;
}

RoundedGroup round_to_bytes(const float* values) {
  float top = 0;
  for (int32_t i = 0; i < kGroup; ++i) top = std::max(top, std::abs(values[i]));
  RoundedGroup out;
  out.scale = to_f16(top / 127);
  const float scale = to_float(out.scale);
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (int32_t i = 0; i < kGroup; ++i) {
    out.wholes[i] = static_cast<int8_t>(nearest(std::clamp(values[i] * inverse, -127.0F, 127.0F)));
  }
  return out;
}

Grid best_grid(const float* values) {
  const auto [low, high] = std::minmax_element(values, values + kGroup);
  const float lowest = *low, span = *high - lowest;
  Grid best;
  best.lowest = lowest;
  if (span <= 0) return best;
  for (int32_t steps = static_cast<int32_t>(kSteps); steps > 0; --steps) {
    best.scale = span / static_cast<float>(steps);
    if (lies_on(values, lowest, best.scale)) return best;
  }
  best.off = std::numeric_limits<float>::infinity();
  for (const float cut : {0.0F, 0.03F, 0.06F}) {  // a little off both ends makes the steps between finer
    Grid grid;
    grid.lowest = lowest + span * cut;
    grid.scale = span * (1 - 2 * cut) / kSteps;
    for (int32_t round = 0; round < 3; ++round) {
      grid.place(values);
      if (grid.off < best.off) best = grid;
      if (!grid.refit(values)) break;
    }
  }
  return best;
}

RoundedGroup round_to_nibbles(const float* values) {
  Grid grid = best_grid(values);
  RoundedGroup out;
  out.scale = to_f16(grid.scale);
  out.lowest = to_f16(grid.lowest);
  grid.narrow();
  grid.place(values);
  for (int32_t i = 0; i < kGroup; ++i) out.wholes[i] = static_cast<int8_t>(grid.wholes[i]);
  return out;
}

}  // namespace

RoundedGroup round_group(const float* values, int32_t n, int32_t bits) {
  float whole_group[kGroup];  // what is missing repeats the first value, which moves no extreme
  for (int32_t i = 0; i < kGroup; ++i) {
    const float value = values[i < n ? i : 0];
    whole_group[i] = std::isfinite(value) ? value : 0;
  }
  return bits == 4 ? round_to_nibbles(whole_group) : round_to_bytes(whole_group);
}

}  // namespace ashlar::cpu
