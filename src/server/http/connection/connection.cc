// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tuple>

namespace ashlar::server {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr size_t kReadAhead = 64u << 10;
constexpr size_t kReadSize = 16u << 10;
constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

/// Small writes go out at once, and a machine that vanished without a word is noticed within two minutes.
void set_socket_options(asio::ip::tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const int fd = socket.native_handle();
  const int idle_s = 60, interval_s = 15, count = 4;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

std::string peer_name(const asio::ip::tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(endpoint.port());
}

}  // namespace

Connection::Connection(tcp::socket socket, ConnectionSet& shared, asio::ssl::context* tls, bool refuse)
    : shared_(shared),
      options_(shared.options()),
      socket_(std::move(socket)),
      refuse_(refuse),
      peer_(peer_name(socket_)),
      event_(socket_.get_executor()),
      room_(socket_.get_executor()),
      watchdog_(socket_.get_executor()),
      body_memory_(options_.memory.get()) {
  set_socket_options(socket_);
  if (tls) tls_ = std::make_unique<asio::ssl::stream<tcp::socket&>>(socket_, *tls);
}

Connection::~Connection() = default;

void Connection::start() {
  auto self = shared_from_this();
  // Exceptions end up here too, out of memory above all: this connection goes, the others stay.
  asio::co_spawn(socket_.get_executor(), serve(self),
                 [ending = Ending(self, &Connection::finish)](std::exception_ptr) {});
}

void Connection::finish() {
  close_socket();
  if (core_) core_->detach();
  core_.reset();
  body_memory_.set(0);
  shared_.remove(this);
}

void Connection::wake() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->event_.cancel(); });
}

void Connection::abort() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close_socket(); });
}

void Connection::yield() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->waiting_) self->close_socket();
  });
}

void Connection::set_waiting(bool waiting) {
  waiting_ = waiting;
  shared_.set_waiting(this, waiting);
}

// ---- What every phase uses.

void Connection::close_socket() {
  error_code ignored;
  socket_.close(ignored);
  ended_ = true;
  ++watch_;
  watchdog_.cancel();
  event_.cancel();
  room_.cancel();
}

void Connection::arm_watchdog(std::chrono::milliseconds limit) {
  const uint64_t number = ++watch_;
  watchdog_.expires_after(limit);
  watchdog_.async_wait([self = shared_from_this(), number](error_code) {
    if (self->watch_ == number) self->close_socket();
  });
}

void Connection::disarm_watchdog() {
  ++watch_;
  watchdog_.cancel();
}

Connection::Awaitable Connection::wait_until(Clock::time_point deadline) {
  event_.expires_at(deadline);
  co_await event_.async_wait(kToken);
}

Connection::AwaitableBool Connection::write(std::string_view bytes) {
  const auto end = Clock::now() + options_.max_write_time;
  while (!bytes.empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    arm_watchdog(std::clamp(left, std::chrono::milliseconds(0), options_.write_timeout));
    error_code error;
    size_t written = 0;
    if (tls_) {
      std::tie(error, written) = co_await tls_->async_write_some(asio::buffer(bytes.data(), bytes.size()), kToken);
    } else {
      std::tie(error, written) = co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kToken);
    }
    disarm_watchdog();
    if (error) co_return false;
    bytes.remove_prefix(written);
    lingers_ = true;
    if (core_) core_->set_in_flight(bytes.size());
  }
  co_return true;
}

Connection::AwaitableBool Connection::shake_hands() {
  arm_watchdog(options_.header_timeout);
  const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kToken);
  disarm_watchdog();
  co_return !error;
}

/// Lets the client read the end of the last answer: closing with its bytes unread would reset the connection under it.
Connection::Awaitable Connection::close_gently() {
  discard_ = true;
  consume(input_.size());
  if (!socket_.is_open() || !lingers_) co_return;
  if (tls_) {
    arm_watchdog(options_.linger);
    co_await tls_->async_shutdown(kToken);
    disarm_watchdog();
  } else {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    const auto deadline = Clock::now() + options_.linger;
    while (!ended_ && Clock::now() < deadline) co_await wait_until(deadline);
  }
}

// ---- Reading.

Connection::Awaitable Connection::pump([[maybe_unused]] std::shared_ptr<Connection> self) {
  std::string buffer(kReadSize, '\0');
  while (!ended_) {
    while (!ended_ && input_.size() >= kReadAhead) {
      room_.expires_at(Clock::time_point::max());
      co_await room_.async_wait(kToken);
    }
    if (ended_) break;
    error_code error;
    size_t n = 0;
    if (tls_) {
      std::tie(error, n) = co_await tls_->async_read_some(asio::buffer(buffer), kToken);
    } else {
      std::tie(error, n) = co_await socket_.async_read_some(asio::buffer(buffer), kToken);
    }
    received(std::string_view(buffer).substr(0, n));
    if (!error) continue;
    input_ended();
    // A client may end its side and still read. From here on only a reset shows that it does not.
    if (error == asio::error::eof) co_await socket_.async_wait(tcp::socket::wait_error, kToken);
    lost();
  }
}

void Connection::received(std::string_view bytes) {
  if (discard_ || bytes.empty()) return;
  input_.append(bytes);
  event_.cancel();
}

void Connection::input_ended() {
  ended_ = true;
  event_.cancel();
}

void Connection::lost() {
  ended_ = true;
  event_.cancel();
  // serve may be stuck in a write to this client, so that it is for us to notice and to stop it.
  if (core_ && core_->client_gone()) close_socket();
}

/// Whether an interim answer would show if the client of the request being answered has gone.
bool Connection::needs_probe() const {
  return ended_ && !probed_ && !core_->request().http_1_0 && !core_->head_taken();
}

void Connection::consume(size_t bytes) {
  input_.erase(0, bytes);
  if (input_.size() < kReadAhead) room_.cancel();
}

void Connection::woken() {
  if (core_ && core_->gone()) {  // it let too much queue up; serve may be stuck in a write
    core_->client_gone();
    close_socket();
  }
  event_.cancel();
}

}  // namespace ashlar::server
