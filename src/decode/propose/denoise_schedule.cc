// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/denoise_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ashlar {
namespace {

double revealed_share(DenoiseSchedule schedule, double t) {
  switch (schedule) {
    case DenoiseSchedule::kLinear:
      return t;
    case DenoiseSchedule::kCosine:
      return 1.0 - std::cos(t * std::numbers::pi / 2);
    case DenoiseSchedule::kSquareRoot:
      return std::sqrt(t);
  }
  return t;
}

}  // namespace

std::optional<DenoiseSchedule> parse_denoise_schedule(const std::string& name) {
  for (const auto schedule : {DenoiseSchedule::kLinear, DenoiseSchedule::kCosine, DenoiseSchedule::kSquareRoot}) {
    if (name == name_of(schedule)) return schedule;
  }
  return std::nullopt;
}

const char* name_of(DenoiseSchedule schedule) {
  switch (schedule) {
    case DenoiseSchedule::kLinear:
      return "linear";
    case DenoiseSchedule::kCosine:
      return "cosine";
    case DenoiseSchedule::kSquareRoot:
      return "sqrt";
  }
  return "?";
}

void denoise_counts(DenoiseSchedule schedule, int32_t positions, int32_t passes, std::vector<int32_t>& counts) {
  counts.clear();
  passes = std::min(passes, positions);
  int32_t revealed = 0;
  for (int32_t pass = 1; pass <= passes; ++pass) {
    const double share = revealed_share(schedule, static_cast<double>(pass) / passes);
    const int32_t left_for_later = passes - pass;  // one each
    int32_t goal = pass == passes ? positions : static_cast<int32_t>(std::lround(share * positions));
    goal = std::clamp(goal, revealed + 1, positions - left_for_later);
    counts.push_back(goal - revealed);
    revealed = goal;
  }
}

}  // namespace ashlar
