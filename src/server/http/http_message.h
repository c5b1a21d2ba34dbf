// SPDX-License-Identifier: Apache-2.0
#pragma once
// What goes over an HTTP connection, as plain values.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::server {

struct Header {
  std::string name;
  std::string value;
};
using Headers = std::vector<Header>;

/// ASCII only, as header names and schemes need it.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// The first header of that name in any case, or null.
const Header* find_header(const Headers& headers, std::string_view name);

/// A request that was received in full and is well-formed. `path` is what the client asked for after percent-decoding:
/// it begins with '/' (or is "*" for OPTIONS), is UTF-8 without control characters or backslashes, and has no "." or
/// ".." segments. Nothing may decode it a second time.
struct HttpRequest {
  std::string method;  ///< as sent; methods are case-sensitive
  std::string path;
  std::string query;  ///< what follows '?', still encoded
  std::string host;   ///< of the target or the Host header, with its port if it was given; empty in HTTP/1.0 only
  Headers headers;
  std::string body;
  std::string peer;       ///< "address:port"
  std::string id;         ///< the answer's X-Request-Id: the client's own if it is short and harmless
  bool http_1_0 = false;  ///< no chunked answers
  bool wants_body() const { return method != "HEAD"; }

  /// The value of the first header of that name, or empty.
  std::string_view header(std::string_view name) const;
  /// The decoded value of the first such parameter of the query ("" for a bare key); nothing if it is missing or not
  /// decodable.
  std::optional<std::string> query_value(std::string_view key) const;
};

/// An answer in one piece. Content-Length, Transfer-Encoding, Connection, Date and X-Request-Id belong to the
/// transport: among `headers` they are dropped, and so is whatever has bytes that a header may not have.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

/// A refusal of a request for `path`. In OpenAI's shape, {"error": {"message", "type", "param", "code"}}, where empty
/// `param` and `code` become null; below /v1/messages in Anthropic's, {"type": "error", "error": {"type", "message"}}.
HttpResponse error_response(std::string_view path, int status, std::string_view type, std::string_view message,
                            std::string_view param = {}, std::string_view code = {});

/// "Not Found" for 404; a general phrase of the class for the rare ones.
std::string_view reason_phrase(int status);

/// `wanted` if it is 1 to 64 letters, digits, '.', '_' or '-', else 32 random hexadecimal digits.
std::string request_id(std::string_view wanted);

}  // namespace ashlar::server
