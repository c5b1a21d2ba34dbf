// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/serve_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "temp_folder.h"
#include "xml_check.h"

namespace ashlar {
namespace {

using ashlar::testing::xml_problem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Five answers of 3 tokens: first text after 10, 20, 30, 40, 50 ms, then 2 ms a token, and one refusal.
LevelRun five() {
  LevelRun run;
  run.level = {2, 0};
  run.seconds = 2;
  for (int i = 1; i <= 5; ++i) {
    RequestRecord record;
    record.first_ns = i * 10'000'000;
    record.last_ns = record.first_ns + 4'000'000;
    record.end_ns = record.last_ns + 1'000'000;
    record.tokens = 3;
    record.chunks = 2;
    record.gaps_s = {0.004};
    record.tokens_reported = true;
    run.records.push_back(record);
  }
  RequestRecord refused;
  refused.error = "HTTP 429";
  refused.detail = "busy";
  run.records.push_back(refused);
  return run;
}

TEST(ServeSummary, FiguresByHand) {
  const LevelSummary level = summarize(five(), {30.5, 2.5});
  EXPECT_EQ(level.requests, 6);
  EXPECT_EQ(level.completed, 5);
  EXPECT_DOUBLE_EQ(level.ttft.mean, 30);
  EXPECT_DOUBLE_EQ(level.ttft.p50, 30);
  EXPECT_NEAR(level.ttft.p90, 46, 1e-9);
  EXPECT_DOUBLE_EQ(level.itl.p50, 2);
  EXPECT_DOUBLE_EQ(level.gap.p50, 4);
  EXPECT_DOUBLE_EQ(level.whole.p50, 35);
  EXPECT_DOUBLE_EQ(level.requests_per_s, 2.5);
  EXPECT_DOUBLE_EQ(level.tokens_per_s, 7.5);
  EXPECT_DOUBLE_EQ(level.tokens_per_chunk(), 1.5);
  EXPECT_EQ(level.good, 3);
  EXPECT_DOUBLE_EQ(level.good_per_s, 1.5);
  EXPECT_EQ(summarize(five(), {0, 1.5}).good, 0);
}

// How long the tokens of an answer in one chunk took is unknown.
TEST(ServeSummary, AnAnswerInOneChunkHasNoTimeBetweenTokens) {
  LevelRun run = five();
  for (int i : {0, 1}) {
    run.records[i].chunks = 1;
    run.records[i].last_ns = run.records[i].first_ns;
    run.records[i].gaps_s.clear();
  }
  const LevelSummary level = summarize(run, {0, 1.5});
  EXPECT_EQ(level.itl.count, 3);
  EXPECT_DOUBLE_EQ(level.itl.p50, 2);
  EXPECT_DOUBLE_EQ(level.itl.mean, 2);
  EXPECT_EQ(level.good, 2);  // it cannot fail the goal
  EXPECT_EQ(summarize(run, {15, 1.5}).good, 1);
}

TEST(ServeReport, WhatWasNotMeasuredIsADash) {
  LevelRun run = five();
  for (RequestRecord& record : run.records) {
    record.chunks = 1;
    record.last_ns = record.first_ns;
    record.gaps_s.clear();
  }
  ServeReport report;
  report.levels = {summarize(run, {})};
  const std::string text = serve_text(report);
  const size_t row = text.find("2 at a time", text.find("milliseconds"));
  std::istringstream cells(text.substr(row + std::string("2 at a time").size()));
  std::vector<std::string> found(8);
  for (std::string& cell : found) cells >> cell;
  EXPECT_THAT(found, ElementsAre("30.0", "46.0", "49.6", "-", "-", "-", "-", "-"));
  const Json level = serve_json(report)["levels"][0];
  EXPECT_EQ(level["inter_token_ms"],
            Json::parse(R"({"count": 0, "mean": null, "p50": null, "p90": null, "p99": null})"));
  EXPECT_EQ(level["inter_chunk_ms"]["p50"], Json(nullptr));
  EXPECT_DOUBLE_EQ(level["ttft_ms"]["p50"].get<double>(), 30);
  EXPECT_TRUE(serve_series(report).points.empty());
  const TempFolder folder;
  EXPECT_TRUE(read_serve_series(folder.write("report.json", serve_json(report).dump())).points.empty());
}

TEST(ServeSummary, NothingIsNoFigure) {
  LevelRun none;
  none.level = {0, 2};
  const LevelSummary level = summarize(none, {});
  EXPECT_EQ(level.itl.count, 0);
  EXPECT_EQ(level.requests_per_s, 0);
}

ServeReport report_of(const std::string& label) {
  ServeReport report;
  report.label = label;
  report.options.model = "tiny";
  report.goals = {30, 2.5};
  report.levels = {summarize(five(), report.goals), summarize({{0, 2}, 1, {}}, report.goals)};
  return report;
}

TEST(ServeReport, TextNamesLoadFiguresAndErrors) {
  const std::string text = serve_text(report_of("run"));
  for (const char* part : {"2 at a time", "2.00 a second", "7.50", "1 x HTTP 429 (busy)", "TTFT"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 160u);
  }
}

TEST(ServeReport, JsonComesBackAsALine) {
  const TempFolder folder;
  const std::string path = folder.write("report.json", serve_json(report_of("<a & b>")).dump());
  const XySeries back = read_serve_series(path);
  EXPECT_EQ(back.name, "<a & b>");
  EXPECT_THAT(back.points, ElementsAre(Pair(2.5, 2.0)));
  EXPECT_EQ(serve_series(report_of("x")).points, back.points);
  const std::string svg = serve_svg({serve_series(report_of("x")), back});
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("&lt;a &amp; b&gt;"));
}

TEST(ServeReport, OtherFilesAreNoOverlay) {
  const TempFolder folder;
  for (const char* text : {"{}", "[]", "{\"kind\":\"ashlar bench serve\",\"label\":\"x\",\"levels\":7}",
                           "{\"kind\":\"ashlar bench serve\",\"label\":\"x\",\"levels\":[7]}",
                           "{\"kind\":\"ashlar bench serve\",\"label\":\"x\",\"levels\":[{\"requests_per_s\":1,"
                           "\"inter_token_ms\":{\"count\":1,\"p50\":\"x\"}}]}"}) {
    EXPECT_THROW(read_serve_series(folder.write("other.json", text)), Error) << text;
  }
}

TEST(XyChart, RoundTops) {
  EXPECT_DOUBLE_EQ(round_top(0), 1);
  EXPECT_DOUBLE_EQ(round_top(0.034), 0.05);
  EXPECT_DOUBLE_EQ(round_top(1), 1);
  EXPECT_DOUBLE_EQ(round_top(2.2), 2.5);
  EXPECT_DOUBLE_EQ(round_top(70), 100);
}

TEST(XyChart, PointsStandWhereTheirValuesAre) {
  // The drawing area reaches from x 70 to 736 and from y 48 to 402; the axes end at 10 and 2.
  const std::string svg = xy_chart("t", "x", "y", {{"s", {{0, 0}, {5, 1}, {10, 2}}}});
  EXPECT_THAT(svg, HasSubstr("points=\"70,402 403,225 736,48\""));
}

TEST(XyChart, WellFormedForAwkwardSeries) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  for (const std::vector<XySeries>& series :
       {std::vector<XySeries>{}, std::vector<XySeries>{{"", {}}},
        std::vector<XySeries>{{"odd", {{kNan, 1}, {1, kInfinity}, {-1, 1}, {1e300, 1}, {1e-300, 1e-300}}}},
        std::vector<XySeries>(20, {"many", {{1, 1}}})}) {
    const std::string svg = xy_chart("a < b", "x", "y", series);
    EXPECT_EQ(xml_problem(svg), "");
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

}  // namespace
}  // namespace ashlar
