// SPDX-License-Identifier: Apache-2.0
#include "device/weights/group_rounding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ashlar {
namespace {

constexpr float kSteps = 15;       // of 4 bits
constexpr float kWhole = 3 << 22;  // what is added to a small float and taken off again has no fraction

// Four values at a time, in any instruction set: sums and extremes are taken lane by lane, which the compiler may not
// decide by itself.
using Lanes = float __attribute__((vector_size(16)));
constexpr int kLanes = 4;
constexpr int kVectors = kRoundedTogether / kLanes;

Lanes all(float value) { return Lanes{value, value, value, value}; }
Lanes nearest(Lanes values) { return values + kWhole - kWhole; }
Lanes size_of(Lanes values) {
  using Bits = int32_t __attribute__((vector_size(16)));
  const Bits bits = std::bit_cast<Bits>(values) & 0x7FFFFFFF;
  return std::bit_cast<Lanes>(bits);
}
float nearest(float value) { return value + kWhole - kWhole; }
float sum(Lanes v) { return (v[0] + v[2]) + (v[1] + v[3]); }
float lowest_of(Lanes v) { return std::min(std::min(v[0], v[1]), std::min(v[2], v[3])); }
float highest_of(Lanes v) { return std::max(std::max(v[0], v[1]), std::max(v[2], v[3])); }

struct Group {
  Lanes v[kVectors];

  Group(const float* values, int32_t n) {  // what is missing repeats the first value, which moves no extreme
    if (n == kRoundedTogether) {
      std::memcpy(v, values, sizeof(v));
    } else {
      float whole[kRoundedTogether];
      for (int32_t i = 0; i < kRoundedTogether; ++i) whole[i] = values[i < n ? i : 0];
      std::memcpy(v, whole, sizeof(v));
    }
    for (int i = 0; i < kVectors; ++i) {
      v[i] = size_of(v[i]) <= std::numeric_limits<float>::max() ? v[i] : all(0);
    }
  }
};

/// A grid of even steps, and how the values of a group lie on it.
struct Grid {
  float scale = 0;
  float lowest = 0;
  Lanes wholes[kVectors];  ///< once placed

  void place(const Group& values) {
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < kVectors; ++i) {
      Lanes at = (values.v[i] - lowest) * inverse;
      at = at < 0 ? all(0) : at;
      wholes[i] = nearest(at > kSteps ? all(kSteps) : at);
    }
  }
  /// The sum of the squares of what is lost.
  float lost(const Group& values) const {
    Lanes squares = all(0);
    for (int i = 0; i < kVectors; ++i) {
      const Lanes rest = values.v[i] - (lowest + scale * wholes[i]);
      squares += rest * rest;
    }
    return sum(squares);
  }
  /// The line through values over wholes that loses least.
  bool refit(const Group& values) {
    Lanes w = all(0), ww = all(0), v = all(0), wv = all(0);
    for (int i = 0; i < kVectors; ++i) {
      const Lanes from_lowest = values.v[i] - lowest;
      w += wholes[i];
      ww += wholes[i] * wholes[i];
      v += from_lowest;
      wv += from_lowest * wholes[i];
    }
    const float sum_w = sum(w), sum_v = sum(v), spread = kRoundedTogether * sum(ww) - sum_w * sum_w;
    if (spread < 0.5F) return false;
    scale = (kRoundedTogether * sum(wv) - sum_w * sum_v) / spread;
    lowest += (sum_v - scale * sum_w) / kRoundedTogether;
    return scale > 0;
  }
  /// What f16 holds of it.
  void narrow() {
    scale = to_float(to_f16(scale));
    lowest = to_float(to_f16(lowest));
  }
};

bool any_above(Lanes values, float bound) {
  int64_t halves[2];
  const auto above = values > bound;
  static_assert(sizeof(above) == sizeof(halves));
  std::memcpy(halves, &above, sizeof(halves));
  return (halves[0] | halves[1]) != 0;
}

// Whether all values are whole steps of `scale` from the lowest on.
bool lies_on(const Group& values, float lowest, float scale) {
  const float inverse = 1 / scale;
  for (int i = 0; i < kVectors; i += 2) {  // mostly the first few say no
    const Lanes at = (values.v[i] - lowest) * inverse, next = (values.v[i + 1] - lowest) * inverse;
    const Lanes between = size_of(at - nearest(at)), others = size_of(next - nearest(next));
    if (any_above(between > others ? between : others, 0.01F)) return false;
  }
  return true;
}

// Whether the values from vector `first` on are whole multiples of `step`, up to less than `off`.
bool are_multiples(const Group& values, int first, float step, float off) {
  Lanes most = all(0);
  for (int i = first; i < kVectors; ++i) {
    const Lanes value = size_of(values.v[i]);
    const Lanes rest = size_of(value - step * nearest(value / step));
    most = rest > most ? rest : most;
  }
  return highest_of(most) < off;
}

// The largest step that all values are whole multiples of, at most 127 of which reach `top`, or 0: by Euclid's
// algorithm. Of values that have no such step two or three are looked at.
float common_step(const Group& values, float top) {
  const float least = 0.9F * top / 127;
  float step = top;
  float each[kRoundedTogether];
  std::memcpy(each, values.v, sizeof(each));
  for (int32_t i = 0; i < kRoundedTogether; ++i) {
    if (step < 2 * least && i % kLanes == 0) {  // a smaller one would be below `least`: this one, or none
      if (!are_multiples(values, i / kLanes, step, 0.25F * least)) return 0;
      break;
    }
    float rest = std::abs(each[i]);
    for (;;) {
      rest = std::abs(rest - step * nearest(rest / step));
      if (rest < 0.25F * least) break;
      std::swap(rest, step);
      if (step < least) return 0;
    }
  }
  const float steps = nearest(top / step);
  if (steps > 127) return 0;  // `least` has room for rounding alone
  step = top / steps;
  return lies_on(values, 0, step) ? step : 0;
}

// Zeros beyond the first n.
void keep_wholes(const Lanes (&wholes)[kVectors], int32_t n, int8_t (&to)[kRoundedTogether]) {
  float each[kRoundedTogether];
  std::memcpy(each, wholes, sizeof(each));
  for (int i = 0; i < kRoundedTogether; ++i) to[i] = static_cast<int8_t>(each[i]);
  std::fill(to + n, to + kRoundedTogether, int8_t{0});
}

RoundedGroup round_to_bytes(const Group& values, int32_t n) {
  Lanes top = all(0);
  for (const Lanes& v : values.v) top = size_of(v) > top ? size_of(v) : top;
  RoundedGroup out;
  const float highest = highest_of(top);
  out.scale = to_f16(highest / 127);
  // Integers of a file with one scale for more than this group reach less than 127 here.
  // f16 has no step for groups beyond these sizes; nor may the search meet zeros or infinities.
  const float own = highest > 0x1p-25F && highest < 0x1p24F ? common_step(values, highest) : 0;
  if (own > 0 && std::abs(to_float(to_f16(own)) - own) < own * 0x1p-11F) out.scale = to_f16(own);
  const float scale = to_float(out.scale);
  const float inverse = scale > 0 ? 1 / scale : 0;
  Lanes wholes[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    Lanes at = values.v[i] * inverse;
    at = at < -127 ? all(-127) : at;
    wholes[i] = nearest(at > 127 ? all(127) : at);
  }
  keep_wholes(wholes, n, out.wholes);
  return out;
}

// Moves a grid that 0 lies on down, as far as its 16 steps allow, to where f16 holds the lowest one: that is how zero
// points of files look.
void align_to_zero(Grid& grid, int32_t used) {
  const float below = -grid.lowest / grid.scale;  // steps to 0
  if (std::abs(below - nearest(below)) > 0.01F) return;
  for (int32_t spare = 0; spare <= static_cast<int32_t>(kSteps) - used; ++spare) {
    const float lowest = -grid.scale * (nearest(below) + static_cast<float>(spare));
    if (to_float(to_f16(lowest)) != lowest) continue;
    grid.lowest = lowest;
    return;
  }
}

// Bit d of element n: d divides n and is smaller.
constexpr auto kDivisors = [] {
  std::array<uint32_t, static_cast<size_t>(kSteps) + 1> bits{};
  for (uint32_t n = 1; n < bits.size(); ++n) {
    for (uint32_t d = 1; d < n; ++d) bits[n] |= n % d == 0 ? 1U << d : 0;
  }
  return bits;
}();

Grid best_grid(const Group& values) {
  Lanes low = values.v[0], high = values.v[0];
  for (const Lanes& v : values.v) {
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  const float lowest = lowest_of(low), span = highest_of(high) - lowest;
  Grid best;
  best.lowest = lowest;
  if (span <= 0) return best;
  const auto fits = [&](int32_t steps) { return lies_on(values, lowest, span / static_cast<float>(steps)); };
  auto steps = static_cast<int32_t>(kSteps);
  while (steps > 0 && !fits(steps)) --steps;
  // The largest step: those that fit have numbers of steps that divide this one.
  for (uint32_t divisors = kDivisors[static_cast<size_t>(steps)]; divisors != 0; divisors &= divisors - 1) {
    const int32_t fewer = std::countr_zero(divisors);
    if (!fits(fewer)) continue;
    steps = fewer;
    break;  // a multiple of a smaller one would have been found as that
  }
  if (steps > 0) {
    best.scale = span / static_cast<float>(steps);
    align_to_zero(best, steps);
    return best;
  }
  float least_lost = std::numeric_limits<float>::infinity();
  for (const float cut : {0.0F, 0.03F, 0.06F}) {  // a little off both ends makes the steps between finer
    Grid grid;
    grid.lowest = lowest + span * cut;
    grid.scale = span * (1 - 2 * cut) / kSteps;
    for (int32_t round = 0; round < 3; ++round) {
      grid.place(values);
      if (const float lost = grid.lost(values); lost < least_lost) {
        least_lost = lost;
        best = grid;
      }
      if (!grid.refit(values)) break;
    }
  }
  return best;
}

RoundedGroup round_to_nibbles(const Group& values, int32_t n) {
  Grid grid = best_grid(values);
  RoundedGroup out;
  out.scale = to_f16(grid.scale);
  out.lowest = to_f16(grid.lowest);
  grid.narrow();
  grid.place(values);
  keep_wholes(grid.wholes, n, out.wholes);
  return out;
}

}  // namespace

RoundedGroup round_group(const float* values, int32_t n, int32_t bits) {
  const Group group(values, n);
  return bits == 4 ? round_to_nibbles(group, n) : round_to_bytes(group, n);
}

Numbers kept_numbers(KeptWeights kept, Numbers stored, Products products) {
  if (products == Products::kPropose) return Numbers::kInt8;
  if (products == Products::kRoute || kept == KeptWeights::kExact) return Numbers::kWhole;
  if (kept == KeptWeights::kAuto) return stored;
  const Numbers asked = kept == KeptWeights::kInt4  ? Numbers::kInt4
                        : kept == KeptWeights::kFp8 ? Numbers::kE4M3
                                                    : Numbers::kInt8;
  if (products != Products::kVocabulary) return asked;
  return stored == Numbers::kInt4 || stored == asked ? stored : Numbers::kInt8;  // no more than 8 bits, no fewer made
}

}  // namespace ashlar
