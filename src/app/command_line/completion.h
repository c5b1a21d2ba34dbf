// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scripts that complete ashlar's commands and flags in a shell.

#include <string>
#include <vector>

#include "app/program.h"

namespace ashlar {

/// Names that completion_script takes.
const std::vector<std::string>& completion_shells();

/// The script for "bash", "zsh" or "fish": to be sourced, or installed where the shell looks for completions.
std::string completion_script(const std::vector<CommandFacts>& commands, const std::string& shell);

}  // namespace ashlar
