// SPDX-License-Identifier: Apache-2.0
// What belongs to `ashlar train` and trains nothing: pictures of logs, and a word for those who look for a step that is
// part of the command itself.
#include <memory>

#include "app/commands/commands.h"
#include "app/train/train_plot.h"
#include "base/error.h"
#include "measure/report/report_file.h"
#include "session/output.h"

namespace ashlar {
namespace {

struct PlotCommand {
  std::vector<std::string> logs;
  std::string output;
};

void plot(const PlotCommand& command) {
  ReportFile page(command.output);
  std::vector<LoggedRun> runs;
  for (const std::string& log : command.logs) runs.push_back(read_train_log(log));
  page.write(train_plot(runs));
  for (const LoggedRun& run : runs) write_output(describe_run(run) + "\n");
}

// Flags of the training itself are not asked for where a subcommand is named.
void ask_nothing_of(CLI::App& train) {
  for (CLI::Option* option : train.get_options()) option->required(false);
}

void add_answer(CLI::App& train, const std::string& name, const std::string& answer) {
  CLI::App* command = train.add_subcommand(name, answer);
  command->group("")->prefix_command();
  command->preparse_callback([name, answer](size_t) { throw Error("train", "there is no " + name + ": " + answer); });
}

}  // namespace

void add_train_parts(CLI::App& train) {
  auto options = std::make_shared<PlotCommand>();
  CLI::App* command = train.add_subcommand("plot", "Draw what trainings logged: a page of charts");
  command->add_option("LOG", options->logs, "train-log.jsonl, or a training's output folder; several: side by side")
      ->required()
      ->expected(1, 64);
  command->add_option("-o,--output", options->output, "Page to write")->required()->type_name("FILE.html");
  command->footer(
      "Examples:\n"
      "  ashlar train plot my-drafter -o run.html\n"
      "  ashlar train plot one/train-log.jsonl two/train-log.jsonl -o runs.html");
  command->preparse_callback([&train](size_t) { ask_nothing_of(train); });
  command->callback([options] { plot(*options); });
  add_answer(train, "prepare",
             "data are read, rendered and packed as training goes on; --dry-run reads them and says what would be "
             "learnt of them, in what time and memory");
  add_answer(train, "capture",
             "hidden states are written ahead of the training by its own command with --hidden-states FOLDER "
             "--capture");
}

}  // namespace ashlar
