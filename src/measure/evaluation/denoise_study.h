// SPDX-License-Identifier: Apache-2.0
#pragma once
// Does it pay to fill a block in several drafter passes? Acceptance length and speed by number of passes and schedule.

#include <string>
#include <vector>

#include "io/json.h"
#include "measure/evaluation/acceptance.h"

namespace ashlar {

struct DenoiseCell {
  int32_t passes = 1;
  std::string schedule;        ///< "-" for one pass, where there is nothing to schedule
  AcceptanceTally tally;       ///< of one round: every round gives the same tokens
  std::vector<double> speeds;  ///< decode tokens per second, one entry a round
  double tokens_per_second() const { return median(speeds); }
  /// Decode time per verify step, from the two figures above.
  double ms_per_step() const;
};

/// The first cell is what the others are compared with.
std::string denoise_text(const std::vector<DenoiseCell>& cells, int32_t width, double temperature);
Json denoise_json(const std::vector<DenoiseCell>& cells);

}  // namespace ashlar
