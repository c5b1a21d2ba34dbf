// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/train/calibration.h"
#include "session/interrupt.h"
#include "session/output.h"
#include "session/terminal.h"
#include "session/with_room.h"

namespace ashlar {
namespace {

constexpr int kNothingWonExit = 3;

struct CalibrateCommand {
  SessionOptions session;
  CalibrationOptions calibration;
  bool json = false;
};

void run(const CalibrateCommand& command) {
  const std::unique_ptr<Session> opened = with_room(with_first_drafter(command.session, command.calibration));
  Session& session = *opened;
  if (!command.session.quiet) {
    for (const std::string& note : session.notes()) print_note(note);
  }
  const std::optional<DrafterComparison> comparison = calibrate(session, command.calibration);
  if (!comparison) {
    print_note("stopped; no drafter was written or replaced");
    throw CLI::RuntimeError(kInterruptedExit);
  }
  if (command.json) {
    write_output(comparison_json(*comparison, command.calibration).dump() + "\n");
  } else {
    write_output(comparison_text(*comparison, command.session.model, session.drafter_name(), command.calibration));
  }
  if (!comparison->won()) throw CLI::RuntimeError(kNothingWonExit);
}

}  // namespace

CLI::App* add_calibrate_command(CLI::App& app) {
  auto options = std::make_shared<CalibrateCommand>();
  CLI::App* command = app.add_subcommand("calibrate", "Train a drafter on with the traffic that a server kept");
  CalibrationOptions& calibration = options->calibration;
  command
      ->add_option("MODEL", options->session.model,
                   "Hugging Face model folder or .gguf file (default: the bundled model)")
      ->envname("ASHLAR_MODEL");
  command->add_option("--learn", calibration.traffic, "Folder that `ashlar serve --learn` keeps")
      ->type_name("FOLDER")
      ->required();
  command
      ->add_option("--drafter", options->session.drafter,
                   "To start from and to win against (default: that in -o, else the one found for MODEL)")
      ->type_name("FOLDER")
      ->envname("ASHLAR_DRAFTER");
  command
      ->add_option("-o,--output", calibration.output,
                   "Folder of the drafter that wins (default: drafter in the folder of --learn)")
      ->type_name("FOLDER");
  command->add_option("--minutes", calibration.minutes, "Most time for training, which three epochs end sooner")
      ->type_name("X")
      ->transform(number_above(0, 1e6))
      ->capture_default_str();
  command->add_option("--learning-rate", calibration.learning_rate, "Highest, after the warm-up")
      ->type_name("X")
      ->transform(number_above(0, 1))
      ->capture_default_str();
  command->add_option("--seed", calibration.seed, "Of the prompts that are held out, and of the training")
      ->type_name("S")
      ->transform(whole(0, UINT64_MAX))
      ->capture_default_str();
  command->add_flag("--json", options->json, "What was found as a JSON object");
  add_computing_flags(*command, options->session);
  command->footer(
      "One prompt in eight is held out. What wins there as served, by more than the noise, takes the place of the\n"
      "folder of -o at once, and the one before stays next to it as .previous.\n"
      "Exit code 0 if it won, 3 if nothing was won and nothing written, 1 for an error, 130 after Ctrl-C.\n"
      "Examples:\n"
      "  ashlar serve MODEL --learn traffic\n"
      "  ashlar calibrate MODEL --learn traffic\n"
      "  ashlar serve MODEL --learn traffic --drafter traffic/drafter");
  command->callback([options] { run(*options); });
  return command;
}

}  // namespace ashlar
