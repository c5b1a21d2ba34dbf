// SPDX-License-Identifier: Apache-2.0
#include "measure/report/xy_chart.h"

#include <algorithm>
#include <cmath>

#include "measure/report/chart_style.h"
#include "measure/report/svg.h"
#include "measure/report/table.h"

namespace ashlar {
namespace {

constexpr double kWidth = 760, kHeight = 460, kLeft = 70, kRight = 24, kAbove = 48, kBelow = 58, kLegendLine = 18;
constexpr int kTicks = 5;
constexpr double kMost = 1e12;  // beyond it nothing measured is true, and numbers no longer fit

bool is_drawn(const std::pair<double, double>& point) {
  const auto fits = [](double value) { return std::isfinite(value) && value >= 0 && value <= kMost; };
  return fits(point.first) && fits(point.second);
}

// Scales of the drawing area.
struct Plot {
  double x_top = 1, y_top = 1;
  static constexpr double kRightEdge = kWidth - kRight, kLowerEdge = kHeight - kBelow;
  double x(double value) const { return kLeft + (kRightEdge - kLeft) * value / x_top; }
  double y(double value) const { return kLowerEdge - (kLowerEdge - kAbove) * value / y_top; }
};

std::string tick_text(double value) {
  std::string text = fixed(value, value < 1 ? 3 : 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

void draw_axes(SvgWriter& svg, const Plot& plot, const std::string& x_label, const std::string& y_label) {
  for (int i = 0; i <= kTicks; ++i) {
    const double x = plot.x_top * i / kTicks, y = plot.y_top * i / kTicks;
    svg.line(kLeft, plot.y(y), Plot::kRightEdge, plot.y(y), {{"stroke", i == 0 ? kInk : kGrid}});
    svg.line(plot.x(x), kAbove, plot.x(x), Plot::kLowerEdge, {{"stroke", i == 0 ? kInk : kGrid}});
    svg.text(kLeft - 8, plot.y(y) + 4, tick_text(y), {{"font-size", "11"}, {"fill", kFaint}, {"text-anchor", "end"}});
    svg.text(plot.x(x), Plot::kLowerEdge + 18, tick_text(x),
             {{"font-size", "11"}, {"fill", kFaint}, {"text-anchor", "middle"}});
  }
  svg.text((kLeft + Plot::kRightEdge) / 2, Plot::kLowerEdge + 42, x_label,
           {{"font-size", "12"}, {"fill", kInk}, {"text-anchor", "middle"}});
  const double y = (kAbove + Plot::kLowerEdge) / 2;
  svg.text(18, y, y_label,
           {{"font-size", "12"},
            {"fill", kInk},
            {"text-anchor", "middle"},
            {"transform", "rotate(-90 18 " + svg_number(y) + ")"}});
}

}  // namespace

double round_top(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (value <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string xy_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                     const std::vector<XySeries>& series) {
  SvgWriter svg(kWidth, kHeight + kLegendLine * static_cast<double>(series.size()));
  double x_most = 0, y_most = 0;
  for (const XySeries& one : series) {
    for (const auto& point : one.points) {
      if (!is_drawn(point)) continue;
      x_most = std::max(x_most, point.first);
      y_most = std::max(y_most, point.second);
    }
  }
  const Plot plot{round_top(x_most), round_top(y_most)};
  svg.text(kLeft, 28, title, {{"font-size", "15"}, {"font-weight", "600"}, {"fill", kInk}});
  draw_axes(svg, plot, x_label, y_label);
  for (size_t i = 0; i < series.size(); ++i) {
    const char* color = kPalette[i % std::size(kPalette)];
    std::vector<std::pair<double, double>> points;
    for (const auto& point : series[i].points) {
      if (is_drawn(point)) points.emplace_back(plot.x(point.first), plot.y(point.second));
    }
    svg.polyline(points, {{"stroke", color}, {"stroke-width", "2.2"}});
    for (const auto& [x, y] : points) svg.circle(x, y, 3.5, {{"fill", color}});
    const double y = kHeight + kLegendLine * static_cast<double>(i);
    svg.line(kLeft, y, kLeft + 20, y, {{"stroke", color}, {"stroke-width", "2.2"}});
    svg.text(kLeft + 28, y + 4, series[i].name, {{"font-size", "12"}, {"fill", kInk}});
  }
  return svg.finish();
}

}  // namespace ashlar
