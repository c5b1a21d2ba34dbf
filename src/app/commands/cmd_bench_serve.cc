// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "measure/report/report_file.h"
#include "measure/serve/serve_report.h"
#include "session/output.h"
#include "session/progress.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

constexpr int64_t kUsualRequests = 64;

struct BenchServeCommand {
  ServeLoadOptions load;
  LatencyGoals goals;
  std::vector<int32_t> concurrency;
  std::vector<double> rates;
  std::string prompts, label, json, svg;
  std::vector<std::string> overlay;
};

std::vector<LoadLevel> levels_of(const BenchServeCommand& command) {
  std::vector<LoadLevel> levels;
  for (const int32_t concurrency : command.concurrency) levels.push_back({concurrency, 0});
  for (const double rate : command.rates) levels.push_back({0, rate});
  if (levels.empty()) {
    for (const int32_t concurrency : {1, 4, 16}) levels.push_back({concurrency, 0});
  }
  return levels;
}

void bench_serve(BenchServeCommand& command) {
  std::vector<XySeries> runs;  // read first: --json may name one of them
  for (const std::string& file : command.overlay) runs.push_back(read_serve_series(file));
  ReportFile json_file(command.json), svg_file(command.svg);
  if (command.load.requests == 0 && command.load.duration_s == 0) command.load.requests = kUsualRequests;
  const auto prompts = command.prompts.empty() ? builtin_prompts() : read_prompt_file(command.prompts, 0);
  ServeLoad load(command.load, prompts);
  {
    const Activity activity("first request");
    load.warm_up();
  }
  ServeReport report;
  report.options = load.options();
  report.label = command.label.empty() ? report.options.model : command.label;
  report.prompts = command.prompts.empty() ? "built-in" : command.prompts;
  report.goals = command.goals;
  for (const LoadLevel& level : levels_of(command)) {
    const bool counted = command.load.requests > 0;
    Progress progress(level_name(level),
                      counted ? command.load.requests : static_cast<int64_t>(command.load.duration_s * 10));
    report.levels.push_back(
        summarize(load.run(level, [&](int64_t done, int64_t) { progress.update(done); }), command.goals));
  }
  write_output(serve_text(report));
  json_file.write(serve_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  runs.insert(runs.begin(), serve_series(report));
  svg_file.write(serve_svg(runs));
  const bool any = std::any_of(report.levels.begin(), report.levels.end(),
                               [](const LevelSummary& level) { return level.completed > 0; });
  if (!any) throw CLI::RuntimeError(1);
}

void add_load_flags(CLI::App& command, BenchServeCommand& options) {
  CLI::Option* concurrency =
      command.add_option("--concurrency", options.concurrency, "Requests at a time, a level each (default: 1,4,16)");
  concurrency->delimiter(',')->allow_extra_args(false)->transform(whole(1, 4096))->type_name("N,...");
  command.add_option("--rate", options.rates, "Instead: arrivals a second (Poisson), a level each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(number(1e-3, 1e5))
      ->type_name("R,...")
      ->excludes(concurrency);
  command
      .add_option("--requests", options.load.requests,
                  "Requests of each level (default: 64, or what --duration allows)")
      ->transform(whole(1, 1 << 24))
      ->type_name("N");
  command.add_option("--duration", options.load.duration_s, "Seconds of sending for each level")
      ->transform(number(0.1, 86400.0))
      ->type_name("S");
  command.add_option("--seed", options.load.seed, "Seed of the arrivals")
      ->type_name("S")
      ->transform(whole(0, UINT64_MAX))
      ->capture_default_str();
  command.add_option("--timeout", options.load.timeout_s, "Seconds that one request may take")
      ->transform(number(0.1, 86400.0))
      ->type_name("S")
      ->capture_default_str();
}

void add_request_flags(CLI::App& command, BenchServeCommand& options) {
  command.add_option("--url", options.load.url, "Server, such as http://127.0.0.1:8080")->required()->type_name("URL");
  command.add_option("--model", options.load.model, "Model's name there (default: the first that it lists)")
      ->type_name("NAME");
  add_choice<LoadApi>(command, "--api", options.load.api, "What is asked [chat]",
                      {{"chat", LoadApi::kChat}, {"completions", LoadApi::kCompletions}});
  command.add_option("--api-key", options.load.api_key, "Sent as bearer token")
      ->envname("ASHLAR_API_KEY")
      ->type_name("KEY");
  command
      .add_option("--prompts", options.prompts,
                  "JSONL: prompt, messages, turns, question or prompt_ids a line (default: built-in)")
      ->type_name("FILE");
  command.add_option("-n,--max-tokens", options.load.max_tokens, "Longest answer")
      ->transform(whole(1, 1 << 24))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--temperature", options.load.temperature, "Temperature of sampling; 0 is greedy")
      ->transform(number(0.0, 100.0))
      ->type_name("T")
      ->capture_default_str();
}

}  // namespace

CLI::App* add_bench_serve_command(CLI::App& bench) {
  auto options = std::make_shared<BenchServeCommand>();
  CLI::App* command =
      bench.add_subcommand("serve", "Load any OpenAI-compatible server and measure what its clients see");
  add_request_flags(*command, *options);
  add_load_flags(*command, *options);
  command->add_option("--slo-ttft", options->goals.ttft_ms, "Goal: milliseconds to the first token")
      ->transform(number_above(0, 1e9))
      ->type_name("MS");
  command
      ->add_option("--slo-itl", options->goals.itl_ms,
                   "Goal: milliseconds between tokens; good/s counts what keeps both")
      ->transform(number_above(0, 1e9))
      ->type_name("MS");
  command->add_option("--label", options->label, "Name of this run in reports (default: the model's)")->type_name("L");
  command->add_option("--json", options->json, "Write every figure to this file")->type_name("FILE");
  command->add_option("--svg", options->svg, "Write a picture: latency against requests a second")->type_name("FILE");
  command->add_option("--overlay", options->overlay, "JSON files of earlier runs to draw with this one")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FILE,...");
  command->footer(
      "Examples:\n"
      "  ashlar bench serve --url http://127.0.0.1:8080 --json drafted.json --label drafted\n"
      "  ashlar bench serve --url http://127.0.0.1:8080 --rate 1,2,4 --duration 30 --overlay drafted.json --svg "
      "load.svg");
  command->callback([options] { bench_serve(*options); });
  return command;
}

}  // namespace ashlar
