// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "base/error.h"
#include "measure/synth/shapes.h"
#include "measure/synth/synth.h"
#include "session/interrupt.h"
#include "session/output.h"
#include "session/progress.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

void synth(SynthOptions& options) {
  SynthResult result;
  options.stopped = InterruptScope::requested;
  try {
    const InterruptScope interrupts(InterruptScope::Signals::kInterruptAndTerminate);
    std::unique_ptr<Progress> progress;
    result = synthesize(options, [&](int64_t bytes, int64_t all) {
      if (!progress) progress = std::make_unique<Progress>("writing", all, ProgressUnit::kBytes);
      progress->update(bytes);
    });
  } catch (const Error& error) {
    if (!InterruptScope::requested()) throw;
    print_note(error.what());
    throw CLI::RuntimeError(kInterruptedExit);
  }
  std::string text = result.model.string() + ": " + std::to_string(result.parameters) + " parameters\n";
  if (!result.drafter.empty()) {
    text += result.drafter.string() + ": " + std::to_string(result.drafter_parameters) + " parameters\n";
  }
  write_output(text);
}

}  // namespace

CLI::App* add_synth_command(CLI::App& app) {
  constexpr int32_t kDrafterLayers = 5;
  auto options = std::make_shared<SynthOptions>();
  CLI::App* command = app.add_subcommand("synth", "Make a model of random weights, to measure what its shape takes");
  command->add_option("SHAPE", options->shape, "Name of a shape, or the path of a config.json or of a model's folder")
      ->required()
      ->type_name("");
  command->add_option("-o,--out", options->folder, "Folder to make")->required()->type_name("FOLDER");
  command->add_flag_callback(
      "--drafter", [options] { options->drafter_layers = kDrafterLayers; },
      "Make a DFlash drafter of 5 layers as well, in FOLDER-dflash");
  command->add_option("--layers", options->layers, "Layers, in place of the shape's own")
      ->transform(whole(1, 1000))
      ->type_name("N");
  command->add_option("--seed", options->seed, "Of the weights: the same ones for the same seed")
      ->transform(whole(0, UINT64_MAX))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--force", options->force,
                    "Replace weights, configuration and tokenizer of the models that the folders hold");
  command->footer(
      "Shapes: " + shape_names() +
      ".\n"
      "A config.json may be of any family that can be loaded. Weights are bf16, the tokenizer knows bytes;\n"
      "answers mean nothing, but steps take what they take with trained weights.\n"
      "Examples:\n"
      "  ashlar synth qwen3-0.6b -o qwen --drafter\n"
      "  ashlar bench qwen --drafter qwen-dflash --accept-length 4");
  command->callback([options] { synth(*options); });
  return command;
}

}  // namespace ashlar
