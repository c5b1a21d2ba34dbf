// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line before and after CLI11 reads it: which command is meant, whose variables count, and what is said
// about unknown words.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/similar_word.h"

namespace ashlar {

/// `help X` as `X --help`, `version` as --version.
std::vector<std::string> spelled_out(std::vector<std::string> args);

struct ChosenCommand {
  CLI::App* app = nullptr;        ///< the program itself if no command is named
  std::string path;               ///< "ashlar eval acceptance"
  std::vector<std::string> args;  ///< what follows its name
  std::string problem;            ///< not empty: a word that is no command, or none where one is needed
};
ChosenCommand choose_command(CLI::App& program, const std::vector<std::string>& args);

/// Takes the variables of all other commands from their flags, so that only those of the chosen one count. Returns what
/// is wrong with them, by the variable's name; empty if nothing. A flag that is given wins over its variable unread.
std::string apply_variables(CLI::App& program, const ChosenCommand& chosen);

/// A parser's error in words for people.
std::string explain(const ChosenCommand& chosen, const CLI::ParseError& error);

/// Whether the arguments set the option by one of its names.
bool is_given(const CLI::Option& option, const std::vector<std::string>& args);
/// Whether the option's variable is set, and not empty.
bool in_environment(const CLI::Option& option);
/// Text of a flag that is given, else of its variable; empty if neither is there.
std::string given_value(const CLI::App& command, const std::string& flag, const std::vector<std::string>& args);

/// The names of a command's flags, with dashes.
std::vector<std::string> flag_names(const CLI::App& command);

}  // namespace ashlar
