// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors as Anthropic and Ollama word them, for the paths where their clients ask. Elsewhere errors have OpenAI's
// shape.

#include <string>
#include <string_view>

#include "io/json.h"

namespace ashlar::server {

inline bool speaks_messages(std::string_view path) {
  return path == "/v1/messages" || path.starts_with("/v1/messages/");
}

inline const char* messages_error_type(int status) {
  switch (status) {
    case 400:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

inline Json messages_error(int status, std::string_view message) {
  return {{"type", "error"}, {"error", {{"type", messages_error_type(status)}, {"message", message}}}};
}

inline bool speaks_ollama(std::string_view path) { return path.starts_with("/api/"); }

inline Json ollama_error(std::string_view message) { return {{"error", message}}; }

}  // namespace ashlar::server
