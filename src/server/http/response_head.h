// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes before a body.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace ashlar::server {

/// How the body after the head is delimited, and what becomes of the connection.
struct Framing {
  bool http_1_0 = false;   ///< of the client
  bool keep_alive = true;  ///< else the connection closes after this answer
  bool chunked = false;    ///< else by content_length, or by the end of the connection if that is absent
  std::optional<uint64_t> content_length;
};

/// Status line and headers with the empty line. Of `headers` those that belong to the transport are dropped and so are
/// those with bytes that would split the answer.
std::string response_head(int status, std::string_view content_type, const Headers& headers,
                          std::string_view request_id, const Framing& framing);

}  // namespace ashlar::server
