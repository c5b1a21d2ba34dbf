// SPDX-License-Identifier: Apache-2.0
#pragma once
// An HTTP/1.1 server: sockets, limits and timeouts. What is served is the handler's business.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/connection/exchange.h"
#include "server/http/connection/memory_budget.h"

namespace ashlar::server {

struct HttpOptions {
  std::string host = "127.0.0.1";  ///< a name or an address to listen on
  uint16_t port = 0;               ///< 0: any free one, see HttpServer::port()
  int io_threads = 1;
  size_t max_header_bytes = 16u << 10;
  size_t max_body_bytes = 32u << 20;
  /// Of all bodies that have come and all answers that were not taken yet: what does not fit gets a 503. An eighth is
  /// kept for small ones. Where the handler reserves memory too, it shares this object.
  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(size_t{1} << 30);
  /// One more closes the connection that has waited longest for its client to send a request. Where none waits, a few
  /// get a 503, the rest is closed.
  size_t max_connections = 1024;
  size_t max_requests_per_connection = 10'000;
  size_t max_backlog_bytes = 8u << 20;  ///< of a stream that its client does not read; one chunk may exceed it

  // Limits on time are totals, except that a client that goes on sending or reading gets more, up to the limit that is
  // one.
  std::chrono::milliseconds header_timeout{10'000};   ///< from the first byte of a request to the end of its headers
  std::chrono::milliseconds body_timeout{30'000};     ///< what a body may be late, at any time:
  size_t min_body_bytes_per_s = 64u << 10;            ///< this many bytes received make up for a second
  std::chrono::milliseconds max_body_time{180'000};   ///< for all of the body
  std::chrono::milliseconds idle_timeout{75'000};     ///< between requests
  std::chrono::milliseconds write_timeout{30'000};    ///< for a client that takes no byte of what is offered
  std::chrono::milliseconds max_write_time{180'000};  ///< for all of an answer, or all that waits of a stream
  std::chrono::milliseconds linger{2'000};            ///< for a client to read the end before the socket closes

  std::string tls_cert_file;  ///< PEM, the chain with the server's certificate first; empty: no TLS
  std::string tls_key_file;   ///< PEM, unencrypted

  /// Checks a request by its head, before its body is taken in: an answer refuses it. Called on an I/O thread.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> check_head;
  /// Called on an I/O thread with what is refused later, or for a head that cannot be read, whose method and path may
  /// then be empty; without headers. Connections beyond the limit are no requests.
  std::function<void(const HttpRequest& head, int status)> on_refused;
};

/// Counts since start(), and what is open now.
struct HttpCounters {
  uint64_t accepted = 0;
  uint64_t refused = 0;  ///< connections beyond max_connections
  uint64_t yielded = 0;  ///< connections without a request that were closed in favour of new ones
  uint64_t requests = 0;
  uint64_t accept_errors = 0;  ///< such as running out of descriptors
  size_t open_connections = 0;
  size_t memory_used = 0, memory_total = 0;  ///< of HttpOptions::memory
};

/// Called on an I/O thread; must not block. An exception it throws becomes a 500.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

/// One request of a connection is handled at a time, in order; up to 64 KiB that a client sends ahead are read, the
/// rest waits in the socket. While more than that waits, only a reset connection is noticed as gone.
class HttpServer {
 public:
  HttpServer(HttpOptions options, Handler handler);
  /// Cuts what is still open, which makes its clients gone, and joins the I/O threads. Not on an I/O thread.
  ~HttpServer();

  /// Takes the port: clients that connect wait. Throws Error("http") if the host, the port or the certificate cannot be
  /// used.
  void listen();
  /// Serves; listens first if it does not yet.
  void start();
  /// Where it listens, after listen().
  uint16_t port() const;
  bool loopback() const;  ///< only this machine can reach it

  /// No new connections from here on. Returns when the port is closed, except on an I/O thread.
  void stop_accepting();
  /// Stops accepting, closes idle connections and lets running answers end, each with its connection. True when all
  /// connections have ended, false at the deadline. Not on an I/O thread.
  bool drain(std::chrono::steady_clock::time_point deadline);

  HttpCounters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar::server
