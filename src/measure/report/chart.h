// SPDX-License-Identifier: Apache-2.0
#pragma once
// Charts of the reports: lines over and bars at the positions 1, 2, 3, ...

#include <string>
#include <vector>

#include "measure/report/svg.h"

namespace ashlar {

/// values[i] belongs to position i + 1; what is not finite is left out.
struct ChartSeries {
  std::string name;  ///< empty: not in the legend
  std::vector<double> values;
  bool dashed = false;
  int color = 0;  ///< index into a palette that colour-blind people can distinguish; wraps around
};

/// Where a chart stands and what is written on it. Values are shares, drawn as percentages.
struct ChartFrame {
  double x = 0, y = 0, width = 0, height = 0;
  std::string title, x_label, y_label;
  double top = 1.0;  ///< share at the upper border
};

void draw_lines(SvgWriter& svg, const ChartFrame& frame, const std::vector<ChartSeries>& series);
void draw_bars(SvgWriter& svg, const ChartFrame& frame, const std::vector<ChartSeries>& series);

/// The lowest "round" share (of 0.05 to 1) that is at least every value.
double chart_top(const std::vector<ChartSeries>& series);

}  // namespace ashlar
