// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON that clients send, read as the lenient readers of Python and JavaScript read it.

#include <string>
#include <string_view>

#include "io/json.h"

namespace ashlar {

/// parse_json, but an escape of half a surrogate pair, which a client that cuts texts by UTF-16 units may leave, stands
/// for U+FFFD: it names no character, and a whole conversation must not fail for it.
Json parse_client_json(std::string_view text, const std::string& name);

}  // namespace ashlar
