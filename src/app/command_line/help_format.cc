// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/help_format.h"

#include <algorithm>

namespace ashlar {

// A flag that switches something off is shown without CLI11's "{false}", and one with a second long name, which is that
// of the version before, by its first.
std::string HelpFormatter::make_option_name(const CLI::Option* option, bool positional) const {
  std::string name = CLI::Formatter::make_option_name(option, positional);
  if (const size_t brace = name.find("{false}"); brace != std::string::npos) name.erase(brace, 7);
  const size_t first = name.find("--");
  if (first != std::string::npos) name.erase(std::min(name.find(",--", first), name.size()));
  return name;
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return {};
  const std::string name = option->get_type_name();
  return name.empty() || name == "TEXT" ? "" : " " + name;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string facts = option->get_type_size() == 0 ? "" : option->get_default_str();
  if (!option->get_envname().empty()) facts += (facts.empty() ? "$" : ", $") + option->get_envname();
  return option->get_description() + (facts.empty() ? "" : " [" + facts + "]");
}

}  // namespace ashlar
