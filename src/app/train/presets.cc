// SPDX-License-Identifier: Apache-2.0
#include "app/train/presets.h"

#include <algorithm>
#include <sstream>

#include "app/command_line/command_line.h"
#include "app/command_line/config_file.h"
#include "train/run/train_methods.h"

namespace ashlar {
namespace {

// What published recipes say, as far as there are flags for it; the size of a step is ours, since others count it by
// GPUs. Sources: docs/training.md.
constexpr TrainPreset kPresets[] = {
    // What the bundled drafter's figures were made with, on a GPU.
    {"tiny", R"(
optimizer = "muon"
batch-tokens = 4096
anchors = 32
)"},
    // SmolLM2-135M's run.
    {"small", R"(
drafter-layers = 4
optimizer = "muon"
learning-rate = 3e-4
batch-tokens = 6144
anchors = 64
)"},
    // SpecForge's qwen3-8b-dflash-online.
    {"qwen3", R"(
drafter-layers = 5
block-size = 16
position-weights = "decay"
optimizer = "adamw"
learning-rate = 6e-4
epochs = 6
max-length = 3072
batch-tokens = 12288
anchors = 512
)"},
    // Speculators' defaults for dflash.
    {"large", R"(
drafter-layers = 5
block-size = 16
position-weights = "dpace"
optimizer = "muon"
learning-rate = 1e-4
epochs = 20
max-length = 8192
batch-tokens = 8192
anchors = 512
)"},
    // DSpark as DeepSpec trains it, as far as one loss can say it. Theirs is mostly the distance of the distributions,
    // sum |p - q| (2 tv), next to a tenth of cross-entropy, from which random weights learn. `lk` is both: `kl`, what
    // cross-entropy is on average, where the overlap is small, and mostly `tv` where it is large.
    {"dspark", R"(
head = "dspark"
drafter-layers = 5
block-size = 8
loss = "lk"
position-weights = "decay"
optimizer = "adamw"
learning-rate = 6e-4
epochs = 10
max-length = 4096
batch-tokens = 8192
anchors = 512
)"},
};

}  // namespace

std::span<const TrainPreset> train_presets() { return kPresets; }

// A preset is for drafters of any kind: lines for flags that mean nothing to this one are left out.
static std::string lines_for(const TrainMethod* method, const std::string& settings) {
  if (method == nullptr) return settings;
  std::istringstream lines(settings);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const std::string flag = "--" + line.substr(0, line.find(' '));
    if (std::ranges::find(method->foreign_flags, flag) == method->foreign_flags.end()) kept += line + "\n";
  }
  return kept;
}

std::vector<std::string> with_train_preset(CLI::App& command, std::vector<std::string> args) {
  const std::string name = given_value(command, "--preset", args);
  const auto* const preset = std::ranges::find_if(kPresets, [&](const TrainPreset& one) { return one.name == name; });
  const TrainMethod* const method = find_train_method(given_value(command, "--method", args));
  if (preset != std::end(kPresets)) {
    args = with_settings(command, std::move(args), "preset " + name, lines_for(method, preset->settings));
  }
  if (method == nullptr) return args;
  return with_settings(command, std::move(args), std::string("method ") + method->name, method->settings);
}

}  // namespace ashlar
