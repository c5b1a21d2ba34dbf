// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags that several commands share. Each has an environment variable ASHLAR_... of the same meaning where that is
// useful; a flag wins over the variable. This is the only place that reads them.

#include <CLI/CLI.hpp>
#include <string>

#include "device/sampling/sampling_params.h"
#include "session/session.h"
#include "session/terminal.h"

namespace ashlar {

/// MODEL, --drafter, the drafter's own settings, --dllm-..., device and memory.
void add_session_flags(CLI::App& command, SessionOptions& options);
/// --device, --threads, --isa.
void add_computing_flags(CLI::App& command, SessionOptions& options);
/// --temperature and so on, --scheme, --logit-bias, and --seed, which it returns.
CLI::Option* add_sampling_flags(CLI::App& command, SamplingParams& sampling);
/// The same for commands that take a fresh seed where none is given, by choose_seed().
CLI::Option* add_sampling_flags_with_fresh_seed(CLI::App& command, SamplingParams& sampling);
/// Takes a fresh seed where a temperature leaves anything to chance. Whether it did: then the seed is to be said.
bool choose_seed(SamplingParams& sampling);
/// --color auto|always|never.
void add_color_flag(CLI::App& command, ColorMode& mode);

/// "ID:VALUE" of --logit-bias. Throws CLI::ValidationError.
std::pair<int32_t, float> parse_logit_bias(const std::string& text);

}  // namespace ashlar
