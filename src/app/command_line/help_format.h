// SPDX-License-Identifier: Apache-2.0
#pragma once
// How --help looks: the value's name, the default and the variable, each where a reader expects it.

#include <CLI/CLI.hpp>

namespace ashlar {

/// "--threads N    Worker threads (0: one per core) [0, $ASHLAR_THREADS]".
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace ashlar
