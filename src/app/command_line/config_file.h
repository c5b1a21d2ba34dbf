// SPDX-License-Identifier: Apache-2.0
#pragma once
// Settings from a TOML file, through the same parser as the flags: a key is a flag's name without the dashes.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ashlar {

/// What a command line means once its --config FILE (or ASHLAR_CONFIG) has been read: the file's settings as flags in
/// front of the others, except those that the command line or the environment sets; an empty variable sets nothing.
/// `args` are those after the command's name. Throws Error("config") that names the file, the line or the key, and
/// what is expected.
std::vector<std::string> with_config_file(CLI::App& command, std::vector<std::string> args);

/// The same for settings that the program brings: TOML, which errors call `where`. What excludes a flag that `args` has
/// is left out.
std::vector<std::string> with_settings(CLI::App& command, std::vector<std::string> args, const std::string& where,
                                       const std::string& toml);

/// One line a setting, as a file of settings again: name = value, and as a comment whether a flag, which variable, the
/// file or nothing set it. What has no value is commented out, and so are keys, which are not shown. Call after
/// parsing. `args`: as they were before with_config_file.
std::string describe_settings(CLI::App& command, const std::vector<std::string>& args);

/// What was set, by flags, variables, a file or a preset, as a file of settings; without keys. Call after parsing.
std::string given_settings(CLI::App& command);

/// The arguments that `parsed` was given, by flag or by variable, as far as `other` has the same: a command line for
/// it.
std::vector<std::string> given_arguments(const CLI::App& parsed, const CLI::App& other);

}  // namespace ashlar
