// SPDX-License-Identifier: Apache-2.0
#pragma once
// The manual page, from the same facts as --help.

#include <string>
#include <vector>

#include "app/program.h"

namespace ashlar {

/// ashlar(1) in roff with the macros of man(7).
std::string man_page(const std::vector<CommandFacts>& commands, const std::string& version);

}  // namespace ashlar
