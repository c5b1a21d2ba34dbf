// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tree of commands and flags: what is parsed, and what --help, `completion` and `man` are written from.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ashlar {

/// Adds every command with its flags, and how help looks, to an App that was made with program_title().
void build_program(CLI::App& app);
std::string program_title();

/// A flag or a positional argument as a person would type and read it.
struct ArgumentFacts {
  std::vector<std::string> names;    ///< "--prompt", "-p"; of a positional its name alone
  std::string type;                  ///< "FILE", "auto|always|never"; empty: a switch, or a value without a name
  std::vector<std::string> choices;  ///< "auto", "always", "never", where these are all there are
  std::string description;
  std::string default_text;  ///< empty: none, or not shown
  std::string variable;      ///< environment variable that stands in for the flag
  std::string group;
  bool positional = false;
  bool takes_value = false;
  bool repeatable = false;
};

struct CommandFacts {
  std::vector<std::string> path;  ///< "eval", "acceptance"; empty: the program itself
  std::string description;
  std::string footer;
  std::vector<ArgumentFacts> arguments;
  std::vector<std::string> commands;  ///< names of the commands below this one

  /// "eval acceptance".
  std::string name() const;
};

/// The program and all commands, each before those below it. Hidden ones are left out.
std::vector<CommandFacts> command_facts(const CLI::App& program);

}  // namespace ashlar
