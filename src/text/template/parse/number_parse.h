// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace ashlar::tmpl {

/// int(text, base) of Python: signs, underscores, white space around, prefixes. False when it is no integer.
/// Fails on one beyond 64 bits.
bool parse_int(std::string_view text, int base, std::int64_t& out);
/// float(text) of Python. False when it is no number.
bool parse_float(std::string_view text, double& out);

}  // namespace ashlar::tmpl
