// SPDX-License-Identifier: Apache-2.0
#include "measure/report/chart.h"

#include <algorithm>
#include <cmath>

#include "measure/report/chart_style.h"

namespace ashlar {
namespace {

constexpr double kLeft = 58, kRight = 14, kAbove = 44, kBelow = 52;

const char* color_of(const ChartSeries& series) { return kPalette[series.color % std::size(kPalette)]; }

// The drawing area inside a frame and its scales.
class Plot {
 public:
  Plot(const ChartFrame& frame, const std::vector<ChartSeries>& series)
      : left_(frame.x + kLeft),
        upper_(frame.y + kAbove),
        width_(frame.width - kLeft - kRight),
        height_(frame.height - kAbove - kBelow),
        top_(frame.top) {
    for (const ChartSeries& one : series) n_ = std::max(n_, one.values.size());
  }

  size_t n() const { return n_; }
  double slot() const { return width_ / static_cast<double>(std::max<size_t>(n_, 1)); }
  double x(size_t i) const { return left_ + (static_cast<double>(i) + 0.5) * slot(); }
  double y(double share) const { return upper_ + height_ * (1 - std::clamp(share / top_, 0.0, 1.0)); }
  double left() const { return left_; }
  double right() const { return left_ + width_; }
  double upper() const { return upper_; }
  double lower() const { return upper_ + height_; }

 private:
  double left_, upper_, width_, height_, top_;
  size_t n_ = 0;
};

void draw_axes(SvgWriter& svg, const ChartFrame& frame, const Plot& plot) {
  svg.text(frame.x + kLeft, frame.y + 24, frame.title, {{"font-size", "15"}, {"font-weight", "600"}, {"fill", kInk}});
  constexpr int kTicks = 5;
  for (int i = 0; i <= kTicks; ++i) {
    const double share = frame.top * i / kTicks;
    svg.line(plot.left(), plot.y(share), plot.right(), plot.y(share), {{"stroke", i == 0 ? kInk : kGrid}});
    svg.text(plot.left() - 8, plot.y(share) + 4, svg_number(share * 100) + " %",
             {{"font-size", "11"}, {"fill", kFaint}, {"text-anchor", "end"}});
  }
  const size_t stride = plot.n() > 24 ? plot.n() / 16 : 1;
  for (size_t i = 0; i < plot.n(); i += stride) {
    svg.text(plot.x(i), plot.lower() + 17, std::to_string(i + 1),
             {{"font-size", "11"}, {"fill", kFaint}, {"text-anchor", "middle"}});
  }
  svg.text((plot.left() + plot.right()) / 2, plot.lower() + 38, frame.x_label,
           {{"font-size", "12"}, {"fill", kInk}, {"text-anchor", "middle"}});
  const double x = frame.x + 14, y = (plot.upper() + plot.lower()) / 2;
  svg.text(x, y, frame.y_label,
           {{"font-size", "12"},
            {"fill", kInk},
            {"text-anchor", "middle"},
            {"transform", "rotate(-90 " + svg_number(x) + " " + svg_number(y) + ")"}});
}

// In the upper right corner, where both falling curves and histograms have room.
void draw_legend(SvgWriter& svg, const Plot& plot, const std::vector<ChartSeries>& series, bool bars) {
  size_t longest = 0, entries = 0;
  for (const ChartSeries& one : series) {
    longest = std::max(longest, one.name.size());
    if (!one.name.empty()) ++entries;
  }
  if (entries == 0) return;
  const double width = 44 + 6.6 * static_cast<double>(longest);
  const double x = plot.right() - width;
  double y = plot.upper() + 6;
  svg.rect(x - 6, y - 4, width + 4, 18.0 * static_cast<double>(entries) + 8,
           {{"fill", "#ffffff"}, {"fill-opacity", "0.9"}, {"stroke", kGrid}});
  for (const ChartSeries& one : series) {
    if (one.name.empty()) continue;
    if (bars) {
      svg.rect(x + 6, y + 3, 12, 10, {{"fill", color_of(one)}});
    } else {
      svg.line(x, y + 8, x + 24, y + 8,
               {{"stroke", color_of(one)}, {"stroke-width", "2"}, {"stroke-dasharray", one.dashed ? "5 4" : "none"}});
    }
    svg.text(x + 32, y + 12, one.name, {{"font-size", "12"}, {"fill", kInk}});
    y += 18;
  }
}

}  // namespace

void draw_lines(SvgWriter& svg, const ChartFrame& frame, const std::vector<ChartSeries>& series) {
  const Plot plot(frame, series);
  draw_axes(svg, frame, plot);
  for (const ChartSeries& one : series) {
    std::vector<std::pair<double, double>> points;
    for (size_t i = 0; i < one.values.size(); ++i) {
      if (std::isfinite(one.values[i])) points.emplace_back(plot.x(i), plot.y(one.values[i]));
    }
    svg.polyline(points, {{"stroke", color_of(one)},
                          {"stroke-width", one.dashed ? "1.5" : "2.2"},
                          {"stroke-dasharray", one.dashed ? "5 4" : "none"}});
    if (one.dashed) continue;
    for (const auto& [x, y] : points) svg.circle(x, y, 3, {{"fill", color_of(one)}});
  }
  draw_legend(svg, plot, series, false);
}

void draw_bars(SvgWriter& svg, const ChartFrame& frame, const std::vector<ChartSeries>& series) {
  const Plot plot(frame, series);
  draw_axes(svg, frame, plot);
  const double bar = plot.slot() * 0.8 / static_cast<double>(std::max<size_t>(series.size(), 1));
  for (size_t s = 0; s < series.size(); ++s) {
    for (size_t i = 0; i < series[s].values.size(); ++i) {
      const double value = series[s].values[i];
      if (!std::isfinite(value) || value <= 0) continue;
      const double x = plot.x(i) - plot.slot() * 0.4 + bar * static_cast<double>(s);
      svg.rect(x, plot.y(value), std::max(bar - 0.5, 0.5), plot.lower() - plot.y(value),
               {{"fill", color_of(series[s])}});
    }
  }
  draw_legend(svg, plot, series, true);
}

double chart_top(const std::vector<ChartSeries>& series) {
  double highest = 0;
  for (const ChartSeries& one : series) {
    for (const double value : one.values) {
      if (std::isfinite(value)) highest = std::max(highest, value);
    }
  }
  for (const double top : {0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8}) {
    if (highest <= top) return top;
  }
  return 1.0;
}

}  // namespace ashlar
