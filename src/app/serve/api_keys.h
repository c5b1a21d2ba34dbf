// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keys that clients of a server send, as a person writes them down.

#include <string>
#include <vector>

namespace ashlar {

/// Empty if `key` can be a key, else why not, as a sentence without its subject. An empty one, of a variable that was
/// not set, would let in everybody who sends an empty one.
std::string problem_with_api_key(const std::string& key);

/// The keys of a file, one a line; blank lines and those that begin with # are none. Throws Error("keys", ...) that
/// names file and line, and never shows what it read.
std::vector<std::string> read_api_keys(const std::string& path);

}  // namespace ashlar
