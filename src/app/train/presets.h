// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recipes of `ashlar train` by name: settings as a file of them would have them.

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

namespace ashlar {

struct TrainPreset {
  const char* name;
  const char* settings;  ///< TOML
};

std::span<const TrainPreset> train_presets();

/// What a command line means once the settings of its --preset and of its --method stand in front of the others, except
/// those that are there or that exclude one which is. A name that is none stays for the parser to refuse.
std::vector<std::string> with_train_preset(CLI::App& command, std::vector<std::string> args);

}  // namespace ashlar
