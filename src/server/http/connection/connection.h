// SPDX-License-Identifier: Apache-2.0
#pragma once
// One client's connection. Everything in it runs on the one thread of its socket's context; Asio stays within the files
// that include this.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/connection/connection_set.h"
#include "server/http/connection/exchange_core.h"
#include "server/http/http_server.h"
#include "server/http/request_parser.h"

namespace ashlar::server {

/// Two coroutines: `pump` always waits for the socket, which is how a client that leaves is noticed in every phase, and
/// `serve` parses, calls the handler and writes. They meet in `input_` and wake each other by cancelling timers.
///
/// The end of the input alone does not say whether the client still reads. HTTP/1.1 clients are sent "100 Continue"
/// then, which any client must pass over: one that has closed its socket resets the connection, which `pump` sees.
/// Streams show it with their next bytes, HTTP/1.0 clients with TCP's keep-alive once their system has forgotten them.
class Connection final : public Endable, public std::enable_shared_from_this<Connection> {
 public:
  using tcp = boost::asio::ip::tcp;
  using Clock = std::chrono::steady_clock;

  /// `refuse`: answer 503 and close. `tls` may be null. `shared` and `tls` must outlive this.
  Connection(tcp::socket socket, ConnectionSet& shared, boost::asio::ssl::context* tls, bool refuse);
  ~Connection() override;

  void start();
  void wake() override;
  void abort() override;
  void yield() override;

 private:
  using Awaitable = boost::asio::awaitable<void>;
  using AwaitableBool = boost::asio::awaitable<bool>;

  Awaitable pump(std::shared_ptr<Connection> self);
  Awaitable serve(std::shared_ptr<Connection> self);
  AwaitableBool serve_one();
  AwaitableBool read_head(RequestParser& parser);
  AwaitableBool read_body(RequestParser& parser);
  AwaitableBool answer(HttpRequest request, std::optional<HttpResponse> refusal, bool keep_alive);
  Awaitable refuse(const HttpResponse& response, std::string_view id);
  AwaitableBool write(std::string_view bytes);
  AwaitableBool shake_hands();
  Awaitable close_gently();
  Awaitable wait_until(Clock::time_point deadline);

  /// Reports a coroutine's end: whether it ends or is destroyed, as Asio does without a word where there is no memory
  /// for its next operation.
  class Ending {
   public:
    Ending(std::shared_ptr<Connection> connection, void (Connection::*end)())
        : connection_(std::move(connection)), end_(end) {}
    Ending(Ending&&) = default;
    ~Ending() {
      if (connection_) (connection_.get()->*end_)();
    }

   private:
    std::shared_ptr<Connection> connection_;
    void (Connection::*end_)();
  };

  void finish();
  std::string report_refusal(const HttpRequest& request, int status);
  void handle(std::optional<HttpResponse> refusal);
  void received(std::string_view bytes);
  void input_ended();
  void lost();
  bool needs_probe() const;
  void consume(size_t bytes);
  void woken();
  void set_waiting(bool waiting);
  Clock::time_point put_off(Clock::time_point deadline, size_t bytes, Clock::time_point end) const;
  void arm_watchdog(std::chrono::milliseconds limit);
  void disarm_watchdog();
  void close_socket();

  ConnectionSet& shared_;
  const HttpOptions& options_;
  tcp::socket socket_;
  std::unique_ptr<boost::asio::ssl::stream<tcp::socket&>> tls_;
  const bool refuse_;
  std::string peer_;
  boost::asio::steady_timer event_;     ///< serve waits on it
  boost::asio::steady_timer room_;      ///< pump waits on it for room in input_
  boost::asio::steady_timer watchdog_;  ///< closes the socket
  uint64_t watch_ = 0;                  ///< a watchdog of an earlier number is void
  std::string input_;                   ///< received and not parsed yet
  bool ended_ = false;                  ///< no more input will come
  bool probed_ = false;                 ///< whether a client that ended its input was sent an interim answer
  bool lingers_ = false;                ///< something was written that the client should get to read
  bool discard_ = false;                ///< what comes is thrown away
  size_t n_requests_ = 0;
  bool waiting_ = false;  ///< for a request, as the set knows
  MemoryShare body_memory_;
  std::shared_ptr<ExchangeCore> core_;  ///< of the request being answered
};

}  // namespace ashlar::server
