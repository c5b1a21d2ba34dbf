// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes of one request to an HttpRequest or a refusal. No sockets here: the connection feeds it, and so does a fuzzer.

#include <cstddef>
#include <memory>
#include <string_view>

#include "server/http/http_message.h"

namespace ashlar::server {

struct RequestLimits {
  size_t max_header_bytes = 16u << 10;  ///< request line and headers
  size_t max_body_bytes = 32u << 20;    ///< after chunks are put together
};

/// Parses one request. Stricter than HTTP where leniency has been used to smuggle requests past a proxy: a line ends in
/// CR LF; no folded headers; one Content-Length of digits or one Transfer-Encoding of "chunked", never both; exactly
/// one Host in HTTP/1.1, and one of each other header that decides about the request. The framing of a chunked body may
/// take 64 KiB and an eighth of the body, so endless tiny chunks, chunk extensions and trailers end in a refusal;
/// trailers are otherwise ignored.
class RequestParser {
 public:
  enum class State : uint8_t { kHead, kBody, kDone, kFailed };

  explicit RequestParser(const RequestLimits& limits);
  ~RequestParser();

  /// Takes bytes and returns how many. Stops where the head ends, so that the head can be checked before a body is
  /// taken in, and where the request ends. In kBody fewer bytes may be taken than were given: offer the rest again with
  /// more after it.
  size_t feed(std::string_view bytes);

  State state() const;
  bool started() const;           ///< a byte of the request has been seen
  bool keep_alive() const;        ///< the client's wish; from kBody on
  bool expects_continue() const;  ///< the client waits for "100 Continue" before it sends the body
  size_t body_bytes() const;      ///< received so far
  /// From kBody on; the body is complete in kDone. In kFailed as much of the head as was understood. peer and id are
  /// left empty.
  const HttpRequest& request() const;
  HttpRequest take_request();
  /// Frees what has come of the body; nothing can be fed after that.
  void drop_body();
  /// The answer to give in kFailed; the connection cannot be used for another request.
  const HttpResponse& failure() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar::server
