// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a flag takes, checked where it is read: from the command line, a variable or a file. A message begins with "is
// ..." and goes after the name of what was wrong.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ashlar {

/// A whole number, decimal or 0x...; the text becomes decimal.
CLI::Validator whole(int64_t low, uint64_t high);
/// A finite number from `low` to `high`; `above`: more than `low`. The text becomes its shortest form.
CLI::Validator number(double low, double high);
CLI::Validator number_above(double low, double high);
/// Bytes, such as 512M or 4G.
CLI::Validator size(int64_t low, int64_t high);
/// One of these words.
CLI::Validator one_of(std::vector<std::string> words);

/// What a setting's text means, as a file of settings spells it.
enum class ValueKind { kText, kNumber, kSize };
ValueKind kind_of(CLI::Option& option);

/// Empty, or why the option would not take the text.
std::string problem_with_value(CLI::Option& option, std::string text);

/// A flag that names one of the values of an enumeration. The option keeps the name, not the value's number.
template <typename Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, Enum& value, const std::string& description,
                        const std::vector<std::pair<std::string, Enum>>& choices) {
  std::vector<std::string> words;
  std::string type;
  for (const auto& choice : choices) {
    words.push_back(choice.first);
    type += (type.empty() ? "" : "|") + choice.first;
  }
  const auto set = [&value, choices](const std::string& word) {
    for (const auto& choice : choices) {
      if (choice.first == word) value = choice.second;
    }
  };
  return command.add_option_function<std::string>(flag, set, description)->type_name(type)->check(one_of(words));
}

}  // namespace ashlar
