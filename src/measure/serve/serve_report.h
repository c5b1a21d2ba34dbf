// SPDX-License-Identifier: Apache-2.0
#pragma once
// A load run as table, JSON and picture.

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "measure/report/xy_chart.h"
#include "measure/serve/serve_summary.h"

namespace ashlar {

struct ServeReport {
  std::string label;
  std::string prompts;  ///< file, or "built-in"
  ServeLoadOptions options;
  LatencyGoals goals;
  std::vector<LevelSummary> levels;
};

std::string serve_text(const ServeReport& report);
Json serve_json(const ServeReport& report);

/// The run as a line: requests per second and median inter-token latency in milliseconds of each level that has both.
XySeries serve_series(const ServeReport& report);
/// The same from the JSON of an earlier run. Throws Error("bench", ...) or Error("json", ...) naming the file.
XySeries read_serve_series(const std::filesystem::path& file);
/// Median inter-token latency against requests per second, one line a run.
std::string serve_svg(const std::vector<XySeries>& runs);

}  // namespace ashlar
