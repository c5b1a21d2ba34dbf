// SPDX-License-Identifier: Apache-2.0
#include "app/train/train_plot.h"

#include <algorithm>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "measure/report/svg.h"
#include "measure/report/table.h"
#include "measure/report/xy_chart.h"
#include "train/run/train_run.h"

namespace ashlar {
namespace {

constexpr size_t kMaxPoints = 72;
constexpr size_t kShownPositions[] = {1, 2, 3, 4, 8, 15};

using StepValue = std::function<double(const LoggedStep&)>;

double mean_of(const LoggedRun& run, size_t begin, size_t end, const StepValue& value) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += value(run.steps[i]);
  return sum / static_cast<double>(end - begin);
}

// Means of as many steps each, at the last of them.
XySeries series_of(const LoggedRun& run, const std::string& name, const StepValue& value) {
  XySeries series{name, {}};
  const size_t n = run.steps.size(), points = std::min(n, kMaxPoints);
  for (size_t i = 0; i < points; ++i) {
    const size_t begin = i * n / points, end = (i + 1) * n / points;
    series.points.emplace_back(static_cast<double>(run.steps[end - 1].step), mean_of(run, begin, end, value));
  }
  return series;
}

std::string chart_of_all(const std::vector<LoggedRun>& runs, const char* title, const char* unit,
                         const StepValue& value) {
  std::vector<XySeries> all;
  for (const LoggedRun& run : runs) all.push_back(series_of(run, run.name, value));
  return xy_chart(title, "step", unit, all);
}

std::string accuracy_chart(const LoggedRun& run) {
  std::vector<XySeries> all;
  for (const size_t position : kShownPositions) {
    const auto has = [&](const LoggedStep& step) { return step.position_accuracy.size() >= position; };
    if (!std::ranges::all_of(run.steps, has)) continue;
    all.push_back(series_of(run, "draft " + std::to_string(position),
                            [position](const LoggedStep& step) { return step.position_accuracy[position - 1]; }));
  }
  return xy_chart("Accuracy by position, teacher-forced: " + run.name, "step", "share of drafts that are right", all);
}

LoggedStep step_of(const JsonFields& fields) {
  LoggedStep step;
  constexpr double kMost = 1e300;
  step.step = fields.integer("step", 1, INT64_MAX);
  step.loss = fields.number("loss", -kMost, kMost);
  step.expected_acceptance = fields.number("expected_acceptance", 0, kMost);
  step.tokens = fields.number("tokens", 0, kMost);
  step.seconds = fields.number("seconds", 0, kMost);
  const Json& accuracy = fields.raw("position_accuracy");
  if (!accuracy.is_array()) fields.fail("position_accuracy", "a list of shares");
  for (const Json& share : accuracy) {
    if (!share.is_number()) fields.fail("position_accuracy", "a list of shares");
    step.position_accuracy.push_back(share.get<double>());
  }
  return step;
}

}  // namespace

LoggedRun read_train_log(const std::filesystem::path& given) {
  const bool is_folder = std::filesystem::is_directory(given);
  const std::filesystem::path path = is_folder ? given / TrainRun::kLog : given;
  if (!file_exists(path)) throw Error("plot", path.string() + ": there is no such file; expected a log of a training");
  LoggedRun run;
  run.name = path.filename() == TrainRun::kLog ? path.parent_path().filename().string() : path.stem().string();
  if (run.name.empty()) run.name = path.string();
  std::ifstream file(path, std::ios::binary);
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string where = path.string() + ":" + std::to_string(++number);
    try {
      const Json object = parse_json(line, where);
      const JsonFields fields(object, where, "plot");
      if (fields.boolean("skipped", false)) {
        ++run.skipped;
      } else {
        run.steps.push_back(step_of(fields));
      }
    } catch (const Error& error) {
      if (file.eof()) break;  // a line without its end
      throw Error("plot", std::string(error.message()) + "; expected a line of " + TrainRun::kLog);
    }
  }
  if (run.steps.empty()) {
    throw Error("plot", path.string() + ": has no step" +
                            (run.skipped > 0 ? " but " + std::to_string(run.skipped) + " that were skipped" : "") +
                            "; expected the log of a training, a line a step");
  }
  return run;
}

std::string describe_run(const LoggedRun& run) {
  const size_t n = run.steps.size(), tenth = std::max<size_t>(1, n / 10);
  const auto change = [&](const char* name, const StepValue& value) {
    return std::string(", ") + name + " " + fixed(mean_of(run, 0, tenth, value), 2) + " to " +
           fixed(mean_of(run, n - tenth, n, value), 2);
  };
  std::string text = run.name + ": " + std::to_string(n) + (n == 1 ? " step" : " steps");
  text += change("loss", [](const LoggedStep& step) { return step.loss; });
  text += change("acceptance", [](const LoggedStep& step) { return step.expected_acceptance; });
  if (run.skipped > 0) text += ", " + std::to_string(run.skipped) + " skipped";
  return text;
}

std::string train_plot(const std::vector<LoggedRun>& runs) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Training of drafters</title>\n"
      "<style>body { font-family: sans-serif; margin: 2em; } svg { display: block; margin: 1em 0; }</style>\n"
      "</head>\n<body>\n<h1>Training of drafters</h1>\n<ul>\n";
  for (const LoggedRun& run : runs) page += "<li>" + svg_escape(describe_run(run)) + "</li>\n";
  page += "</ul>\n";
  page += chart_of_all(runs, "Loss", "loss", [](const LoggedStep& step) { return step.loss; });
  page += chart_of_all(runs, "Expected acceptance, teacher-forced", "tokens a verify step",
                       [](const LoggedStep& step) { return step.expected_acceptance; });
  for (const LoggedRun& run : runs) page += accuracy_chart(run);
  page += chart_of_all(runs, "Speed", "tokens a second",
                       [](const LoggedStep& step) { return step.seconds > 0 ? step.tokens / step.seconds : 0.0; });
  return page + "</body>\n</html>\n";
}

}  // namespace ashlar
