// SPDX-License-Identifier: Apache-2.0
#pragma once
// The target of a request line: which path of ours a client means. Hostile input.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::server {

struct Target {
  std::string path;       ///< decoded and validated, see HttpRequest::path
  std::string query;      ///< without '?', not decoded
  std::string authority;  ///< "host:port" of the absolute form, else empty
};

/// Reads the origin form ("/v1/models?x=1"), the absolute form ("http://host/v1/models", as sent to proxies) and, for
/// OPTIONS, "*". Refuses anything else, malformed escapes, bytes outside printable ASCII, and paths that decode to
/// control characters, backslashes, invalid UTF-8, or "." and ".." segments. The reasons do not quote the target.
Result<Target> parse_target(std::string_view method, std::string_view target);

/// Nothing if an escape is malformed.
std::optional<std::string> decode_percent(std::string_view text, bool plus_is_space);

/// RFC 3986's host[:port], loosely: what a Host header may hold. Refuses user names, blanks and separators.
bool valid_authority(std::string_view authority);

}  // namespace ashlar::server
