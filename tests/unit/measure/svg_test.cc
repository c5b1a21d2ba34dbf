// SPDX-License-Identifier: Apache-2.0
#include "measure/report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "measure/report/chart.h"
#include "xml_check.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::xml_problem;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Svg, TheCheckFindsProblems) {
  EXPECT_EQ(xml_problem("<a><b x=\"1\"/>t &amp; u</a>\n"), "");
  for (const char* bad : {"", "<a>", "<a></b>", "<a/><b/>", "<a>&</a>", "<a x=1/>", "<a x=\"<\"/>",
                          "<a x=\"1\" x=\"2\"/>", "<a", "t<a/>"}) {
    EXPECT_NE(xml_problem(bad), "") << bad;
  }
}

TEST(Svg, EscapesText) {
  SvgWriter svg(100, 50);
  svg.text(1, 2, "a < b & \"c\" > d\x01", {{"fill", "\"<&"}});
  const std::string text = svg.finish();
  EXPECT_EQ(xml_problem(text), "");
  EXPECT_THAT(text, HasSubstr("a &lt; b &amp; &quot;c&quot; &gt; d?"));
}

TEST(Svg, Numbers) {
  EXPECT_EQ(svg_number(0), "0");
  EXPECT_EQ(svg_number(-0.001), "0");
  EXPECT_EQ(svg_number(12.5), "12.5");
  EXPECT_EQ(svg_number(1.0 / 3), "0.33");
  EXPECT_EQ(svg_number(100), "100");
  EXPECT_DEATH(svg_number(kNan), "isfinite");
}

std::string draw(const std::vector<ChartSeries>& series) {
  SvgWriter svg(600, 800);
  draw_lines(svg, {0, 0, 600, 400, "lines <&>", "x", "y", 1.0}, series);
  draw_bars(svg, {0, 400, 600, 400, "bars", "x", "y", chart_top(series)}, series);
  return svg.finish();
}

TEST(Chart, WellFormedForAwkwardSeries) {
  for (const std::vector<ChartSeries>& series : {
           std::vector<ChartSeries>{},
           std::vector<ChartSeries>{{"empty", {}, false, 0}},
           std::vector<ChartSeries>{{"one", {0.5}, false, 0}},
           std::vector<ChartSeries>{{"gaps", {0.5, kNan, kInfinity, -kInfinity, 0.1}, true, 7}},
           std::vector<ChartSeries>{{"outside", {-1, 2, 1e300}, false, 1}, {"shorter", {0.2}, true, 2}},
           std::vector<ChartSeries>{{"many", std::vector<double>(200, 0.3), false, 3}},
       }) {
    const std::string text = draw(series);
    EXPECT_EQ(xml_problem(text), "");
    EXPECT_THAT(text, Not(HasSubstr("nan")));
    EXPECT_THAT(text, Not(HasSubstr("inf")));
  }
}

TEST(Chart, PointsStandWhereTheirValuesAre) {
  SvgWriter svg(600, 400);
  draw_lines(svg, {0, 0, 600, 400, "", "", "", 1.0}, {{"s", {1.0, 0.5, 0.0}, false, 0}});
  // The plot reaches from x 58 to 586 and from y 44 to 348: three slots of 176, values at full, half and no height.
  EXPECT_THAT(svg.finish(), HasSubstr("points=\"146,44 322,196 498,348\""));
}

TEST(Chart, TopIsRoundAndHighEnough) {
  EXPECT_EQ(chart_top({{"", {0.34, 0.1}, false, 0}}), 0.4);
  EXPECT_EQ(chart_top({{"", {0.05}, false, 0}}), 0.05);
  EXPECT_EQ(chart_top({{"", {0.93, kNan}, false, 0}}), 1.0);
}

}  // namespace
}  // namespace ashlar
