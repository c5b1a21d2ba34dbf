// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ashlar::tmpl {

/// The value of a string literal without its quotes, by Python's escapes. `body` does not end in a lone backslash.
std::string unescape(std::string_view body, int line);

}  // namespace ashlar::tmpl
