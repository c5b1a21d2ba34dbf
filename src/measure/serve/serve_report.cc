// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/serve_report.h"

#include "base/error.h"
#include "measure/build_info.h"
#include "measure/report/table.h"

namespace ashlar {
namespace {

constexpr const char* kKind = "ashlar bench serve";
constexpr double kMaxMeasured = 1e12;

std::string cell(const Spread& spread, double value) { return spread.count > 0 ? three_digits(value) : "-"; }

std::string acceptance_cell(const LevelSummary& level) {
  if (!level.drafting_reported || level.drafted == 0) return "-";
  return percent(static_cast<double>(level.accepted) / static_cast<double>(level.drafted));
}

std::string load_table(const ServeReport& report) {
  TextTable table(
      {"load", "answers", "errors", "requests/s", "tokens/s", "good/s", "tokens", "tokens/chunk", "accepted"});
  for (const LevelSummary& level : report.levels) {
    table.add({level_name(level.level), std::to_string(level.completed),
               std::to_string(level.requests - level.completed), three_digits(level.requests_per_s),
               three_digits(level.tokens_per_s), report.goals.any() ? three_digits(level.good_per_s) : "-",
               std::to_string(level.tokens), fixed(level.tokens_per_chunk(), 2), acceptance_cell(level)});
  }
  return table.render();
}

std::string latency_table(const ServeReport& report) {
  TextTable table({"milliseconds", "TTFT p50", "p90", "p99", "between tokens p50", "p90", "p99", "between chunks p50",
                   "p99", "whole p50", "p90", "p99"});
  for (const LevelSummary& level : report.levels) {
    table.add({level_name(level.level), cell(level.ttft, level.ttft.p50), cell(level.ttft, level.ttft.p90),
               cell(level.ttft, level.ttft.p99), cell(level.itl, level.itl.p50), cell(level.itl, level.itl.p90),
               cell(level.itl, level.itl.p99), cell(level.gap, level.gap.p50), cell(level.gap, level.gap.p99),
               cell(level.whole, level.whole.p50), cell(level.whole, level.whole.p90),
               cell(level.whole, level.whole.p99)});
  }
  return table.render();
}

std::string error_lines(const ServeReport& report) {
  std::string text;
  for (const LevelSummary& level : report.levels) {
    for (const auto& [kind, count] : level.errors) {
      const std::string& example = level.examples.at(kind);
      text += "  " + level_name(level.level) + ": " + std::to_string(count) + " x " + kind +
              (example.empty() ? "" : " (" + example + ")") + "\n";
    }
  }
  return text.empty() ? "" : "\nErrors:\n" + text;
}

Json spread_json(const Spread& spread) {
  if (spread.count == 0) return {{"count", 0}, {"mean", nullptr}, {"p50", nullptr}, {"p90", nullptr}, {"p99", nullptr}};
  return {
      {"count", spread.count}, {"mean", spread.mean}, {"p50", spread.p50}, {"p90", spread.p90}, {"p99", spread.p99}};
}

Json level_json(const LevelSummary& level, const LatencyGoals& goals) {
  Json json = {{"concurrency", level.level.concurrency > 0 ? Json(level.level.concurrency) : Json(nullptr)},
               {"rate", level.level.rate > 0 ? Json(level.level.rate) : Json(nullptr)},
               {"seconds", level.seconds},
               {"requests", level.requests},
               {"completed", level.completed},
               {"errors", level.errors},
               {"requests_per_s", level.requests_per_s},
               {"output_tokens_per_s", level.tokens_per_s},
               {"prompt_tokens", level.prompt_tokens},
               {"output_tokens", level.tokens},
               {"chunks", level.chunks},
               {"tokens_reported", level.tokens_reported},
               {"ttft_ms", spread_json(level.ttft)},
               {"inter_token_ms", spread_json(level.itl)},
               {"inter_chunk_ms", spread_json(level.gap)},
               {"end_to_end_ms", spread_json(level.whole)}};
  if (goals.any()) {
    json["good"] = level.good;
    json["goodput_per_s"] = level.good_per_s;
  }
  if (level.drafting_reported)
    json["speculative_decoding"] = {{"drafted", level.drafted}, {"accepted", level.accepted}};
  return json;
}

}  // namespace

std::string serve_text(const ServeReport& report) {
  std::string text = report.label + ": " + report.options.model + " at " + report.options.url + ", longest answer " +
                     std::to_string(report.options.max_tokens) + " tokens\n\n" + load_table(report) + "\n" +
                     latency_table(report) + error_lines(report);
  for (const LevelSummary& level : report.levels) {
    if (level.completed == 0 || level.tokens_reported) continue;
    text +=
        "\nThe server does not report usage: chunks were counted as tokens, which is wrong if one carries several.\n";
    break;
  }
  return text;
}

Json serve_json(const ServeReport& report) {
  const ServeLoadOptions& options = report.options;
  Json json = {{"kind", kKind},
               {"build", describe_build()},
               {"label", report.label},
               {"url", options.url},
               {"model", options.model},
               {"prompts", report.prompts},
               {"options",
                {{"api", options.api == LoadApi::kChat ? "chat" : "completions"},
                 {"max_tokens", options.max_tokens},
                 {"temperature", options.temperature},
                 {"requests", options.requests},
                 {"duration_s", options.duration_s},
                 {"seed", options.seed},
                 {"slo_ttft_ms", report.goals.ttft_ms},
                 {"slo_itl_ms", report.goals.itl_ms}}}};
  json["levels"] = Json::array();
  for (const LevelSummary& level : report.levels) json["levels"].push_back(level_json(level, report.goals));
  return json;
}

XySeries serve_series(const ServeReport& report) {
  XySeries series{report.label, {}};
  for (const LevelSummary& level : report.levels) {
    if (level.itl.count > 0) series.points.emplace_back(level.requests_per_s, level.itl.p50);
  }
  return series;
}

XySeries read_serve_series(const std::filesystem::path& file) {
  const Json json = read_json_file(file);
  const JsonFields fields(json, file.string(), "bench");
  if (fields.string("kind", "") != kKind) fields.fail("kind", std::string("\"") + kKind + "\": a file of --json");
  XySeries series{fields.string("label"), {}};
  const Json& levels = fields.raw("levels");
  if (!levels.is_array()) fields.fail("levels", "a list");
  for (const Json& level : levels) {
    const JsonFields figures(level, file.string(), "bench");
    const JsonFields latency = figures.object("inter_token_ms");
    if (latency.integer("count", 0, INT64_MAX) == 0) continue;
    series.points.emplace_back(figures.number("requests_per_s", 0, kMaxMeasured),
                               latency.number("p50", 0, kMaxMeasured));
  }
  return series;
}

std::string serve_svg(const std::vector<XySeries>& runs) {
  return xy_chart("Inter-token latency under load", "requests per second", "median inter-token latency, ms", runs);
}

}  // namespace ashlar
