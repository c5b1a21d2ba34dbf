// SPDX-License-Identifier: Apache-2.0
#pragma once
// A chart of lines through points with axes from 0, for quantities of any unit.

#include <string>
#include <utility>
#include <vector>

namespace ashlar {

struct XySeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< joined in this order; what is not finite or negative is left out
};

/// The whole SVG document, 760 by 460 and taller by a line for each series in the legend.
std::string xy_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                     const std::vector<XySeries>& series);

/// The lowest of 1, 2, 2.5 and 5 times a power of ten that is at least `value`; 1 for 0.
double round_top(double value);

}  // namespace ashlar
