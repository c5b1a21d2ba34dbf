// SPDX-License-Identifier: Apache-2.0
#pragma once
// One request and its answer, as the handler of requests sees them.

#include <functional>
#include <memory>
#include <string>

#include "server/http/http_message.h"

namespace ashlar::server {

class ExchangeCore;

/// Handed to the handler, which answers from any thread, at once or later: with respond(), or with begin_stream(),
/// send() and finish(). All calls are thread-safe, never block and never throw for a client's sake. It may outlive the
/// connection and the server; then nothing it is given has an effect. Destroyed unanswered, the client gets a 500;
/// destroyed in mid-stream, the connection is cut, so that the client cannot take the part for the whole.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<ExchangeCore> core);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Unchanged for the life of the exchange.
  const HttpRequest& request() const;

  /// Adds a header to whatever answer follows; without effect once that has begun.
  void add_header(std::string name, std::string value);

  /// The whole answer. False if an answer was begun before, or the client is gone.
  bool respond(HttpResponse response);

  /// Begins an answer of unknown length. "text/event-stream" gets the headers that keep caches and proxies from holding
  /// it back. False as for respond().
  bool begin_stream(int status, std::string content_type, Headers headers = {});

  /// Queues bytes of the body; what is queued while the socket is busy goes out in one write. False if the client is
  /// gone, if it has let more than HttpOptions::max_backlog_bytes queue up (which cuts the connection and makes it
  /// gone), or if no stream is open.
  bool send(std::string chunk);

  /// Bytes of a stream that the client has not taken yet.
  size_t backlog() const;

  /// Ends a stream. What is queued is still sent.
  void finish();

  /// `callback` is called once, on an I/O thread, if the client goes away before respond() or finish(); at once and on
  /// this thread if it is gone already. It must not block. A client that shuts down only its sending side is still
  /// there; one that closed without reading what it was sent of a stream shows with the next bytes that it is sent. A
  /// callback that has begun when finish() is called on another thread may end after that. Replaces an earlier
  /// callback.
  void on_gone(std::function<void()> callback);
  bool gone() const;

 private:
  const std::shared_ptr<ExchangeCore> core_;
};

}  // namespace ashlar::server
