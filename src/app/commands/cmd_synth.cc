// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "base/error.h"
#include "measure/synth/drafter_shapes.h"
#include "measure/synth/shapes.h"
#include "measure/synth/synth.h"
#include "session/interrupt.h"
#include "session/output.h"
#include "session/progress.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

// A list, cut after commas into lines that a terminal holds.
std::string in_lines(std::string list) {
  constexpr size_t kMaxLine = 100;
  for (size_t begin = 0; list.size() - begin > kMaxLine;) {
    const size_t comma = list.rfind(", ", begin + kMaxLine);
    if (comma == std::string::npos || comma < begin) break;
    list[comma + 1] = '\n';
    begin = comma + 2;
  }
  return list;
}

std::string line_of(const SynthResult::Made& made) {
  return made.folder.string() + ": " + std::to_string(made.parameters) + " parameters\n";
}

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
  std::string text = line_of(result.model);
  for (const SynthResult::Made& drafter : result.drafters) text += line_of(drafter);
  write_output(text);
}

}  // namespace

CLI::App* add_synth_command(CLI::App& app) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App* command = app.add_subcommand("synth", "Make a model of random weights, to measure what its shape takes");
  command->add_option("SHAPE", options->shape, "Name of a shape, or the path of a config.json or of a model's folder")
      ->required()
      ->type_name("");
  command->add_option("-o,--out", options->folder, "Folder to make")->required()->type_name("FOLDER");
  CLI::Option* const one = command->add_flag_callback(
      "--drafter", [options] { options->drafters = {drafter_kinds().front()}; },
      "Make a DFlash drafter of 5 layers as well, in FOLDER-dflash");
  command
      ->add_option("--drafters", options->drafters,
                   "Make these as well, each in FOLDER-KIND: dflash and dflash2 of 5 layers, eagle3 of one")
      ->delimiter(',')
      ->check(CLI::IsMember(drafter_kinds()))
      ->type_name("KIND,...")
      ->excludes(one);
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
      "Shapes: " + in_lines(shape_names()) +
      ".\n"
      "A config.json may be of any family that can be loaded. Weights are bf16, the tokenizer knows bytes;\n"
      "answers mean nothing, but steps take what they take with trained weights. Models whose family has a layer\n"
      "that drafts (--drafter mtp) get one.\n"
      "Examples:\n"
      "  ashlar synth qwen3-0.6b -o qwen --drafter\n"
      "  ashlar bench qwen --drafter qwen-dflash --accept-length 4\n"
      "  ashlar synth qwen3.5-9b -o qwen --drafters dflash2,eagle3");
  command->callback([options] { synth(*options); });
  return command;
}

}  // namespace ashlar
