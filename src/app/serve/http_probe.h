// SPDX-License-Identifier: Apache-2.0
#pragma once
// One GET request to a server, for health checks.

#include <chrono>
#include <string>

namespace ashlar {

struct ProbeAnswer {
  int status = 0;
  std::string body;  ///< at most 64 KiB
};

/// GET of http://HOST[:PORT][/PATH] or https://...; `default_path` where the URL has none. The certificate of a server
/// on this machine (localhost, 127.x.x.x, ::1) is not checked, that of any other is. Throws Error("health", ...) if the
/// URL is wrong, nothing answers, or the answer is no HTTP; after `timeout` in total at the latest (name lookup aside).
ProbeAnswer probe(const std::string& url, const std::string& default_path, std::chrono::milliseconds timeout);

}  // namespace ashlar
