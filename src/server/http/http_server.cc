// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <future>
#include <thread>

#include "base/error.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/tls.h"

namespace ashlar::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr size_t kRefusers = 64;  // connections beyond the limit that get an answer
constexpr std::chrono::milliseconds kAcceptPause{50};

struct NoRoom {};  // for another client; run() catches it

std::string without_brackets(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']' ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

struct HttpServer::Impl {
  Impl(HttpOptions options, Handler handler)
      : shared(std::move(options), std::move(handler)),
        loops(static_cast<size_t>(std::max(1, shared.options().io_threads))),
        acceptor(loops.front().context) {}

  // Each connection belongs to one loop, whose one thread runs what the connection does in order. Not strands over one
  // context: one that finds no memory to run what it has queued never runs again.
  struct Loop {
    asio::io_context context{1};
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
    std::thread thread;
  };

  tcp::endpoint resolve();
  void listen();
  void run(Loop& loop);
  void await_client();
  void accept_client();
  void admit(tcp::socket socket);

  ConnectionSet shared;
  std::unique_ptr<asio::ssl::context> tls;
  std::deque<Loop> loops;
  // The first loop's:
  tcp::acceptor acceptor;
  bool awaiting = false;  // a client, or has yet to hear of one that came
  size_t n_accepted = 0;
  tcp::endpoint local;
};

namespace {
thread_local const void* serving = nullptr;  // the server that this thread is an I/O thread of
}  // namespace

tcp::endpoint HttpServer::Impl::resolve() {
  const HttpOptions& options = shared.options();
  tcp::resolver resolver(loops.front().context);
  error_code error;
  const std::string host = without_brackets(options.host);
  const auto found = resolver.resolve(host, std::to_string(options.port), tcp::resolver::passive, error);
  if (host.empty() || error || found.empty()) {
    throw Error("http", "The host \"" + options.host + "\" is not known here" +
                            (error ? " (" + error.message() + ")" : "") +
                            "; expected an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them.");
  }
  return found.begin()->endpoint();
}

void HttpServer::Impl::listen() {
  const tcp::endpoint endpoint = resolve();
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  // Asio would wait for another client, in accept_client(), in the place of one that has left.
  if (!error) acceptor.non_blocking(true, error);
  if (!error) acceptor.set_option(asio::socket_base::enable_connection_aborted(true), error);
  if (!error) local = acceptor.local_endpoint(error);
  if (!error) return;
  const std::string where = shared.options().host + ":" + std::to_string(endpoint.port());
  error_code ignored;
  acceptor.close(ignored);
  if (error == asio::error::address_in_use) {
    throw Error("http", "Port " + std::to_string(endpoint.port()) + " of " + shared.options().host +
                            " is in use; stop the program that uses it, or choose another port (0 takes a free one).");
  }
  if (error == asio::error::access_denied) {
    throw Error("http",
                "No permission to listen on " + where + "; ports below 1024 need privileges, choose a higher one.");
  }
  throw Error("http", "Cannot listen on " + where + " (" + error.message() + "); expected an address of this machine.");
}

void HttpServer::Impl::run(Loop& loop) {
  serving = this;
  const bool accepts = &loop == &loops.front();
  for (bool pause = false;;) {
    try {
      if (std::exchange(pause, false)) loop.context.run_for(kAcceptPause);  // its connections go on
      if (accepts) await_client();
      loop.context.run();
      return;
    } catch (...) {  // out of memory outside of a connection's coroutines: what was tried is lost, the rest goes on
      // No descriptor, buffer or memory left: clients wait in the queue of the port until some are free again.
      pause = accepts && !awaiting && acceptor.is_open();
      if (pause) shared.count_accept_error();
    }
  }
}

// A callback and no coroutine, which Asio destroys without a word where there is no memory for its next operation: here
// run() learns of it and tries again.
void HttpServer::Impl::await_client() {
  if (awaiting || !acceptor.is_open()) return;
  acceptor.async_wait(tcp::acceptor::wait_read, [this](error_code) {
    awaiting = false;
    accept_client();
  });
  awaiting = true;
}

// What it throws, run() catches.
void HttpServer::Impl::accept_client() {
  if (!acceptor.is_open()) return;
  error_code error;
  tcp::socket socket(loops[n_accepted % loops.size()].context);
  acceptor.accept(socket, error);
  const bool left = error == asio::error::would_block || error == asio::error::connection_aborted;
  if (error && !left) throw NoRoom{};
  if (!error) {
    ++n_accepted;
    admit(std::move(socket));
  }
  await_client();
}

void HttpServer::Impl::admit(tcp::socket socket) {
  if (shared.draining()) return;
  try {
    const size_t beyond = shared.make_room();
    if (beyond > 0) shared.count_refused();
    if (beyond > kRefusers) return;
    const auto connection = std::make_shared<Connection>(std::move(socket), shared, tls.get(), beyond > 0);
    if (shared.add(connection)) connection->start();
  } catch (const std::exception&) {  // out of memory: this client is turned away, the next may have more luck
    shared.count_accept_error();
  }
}

HttpServer::HttpServer(HttpOptions options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() {
  stop_accepting();
  impl_->shared.abort_all();
  for (Impl::Loop& loop : impl_->loops) loop.work.reset();
  for (Impl::Loop& loop : impl_->loops) {
    if (loop.thread.joinable()) loop.thread.join();
  }
}

void HttpServer::listen() {
  Impl& impl = *impl_;
  const HttpOptions& options = impl.shared.options();
  if (!options.tls_cert_file.empty() || !options.tls_key_file.empty()) {
    impl.tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
    set_up_tls(impl.tls->native_handle(), options.tls_cert_file, options.tls_key_file);
  }
  impl.listen();
}

void HttpServer::start() {
  Impl& impl = *impl_;
  if (!impl.acceptor.is_open()) listen();
  for (Impl::Loop& loop : impl.loops) {
    tcp::socket(loop.context);  // makes what all sockets of a context share, which is no work for times without memory
    loop.work.emplace(loop.context.get_executor());
  }
  for (Impl::Loop& loop : impl.loops) loop.thread = std::thread([&impl, &loop] { impl.run(loop); });
}

uint16_t HttpServer::port() const { return impl_->local.port(); }
bool HttpServer::loopback() const {
  const asio::ip::address address = impl_->local.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.is_loopback();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
}
HttpCounters HttpServer::counters() const { return impl_->shared.counters(); }

void HttpServer::stop_accepting() {
  Impl& impl = *impl_;
  if (!impl.loops.front().thread.joinable()) return;
  const auto closed = std::make_shared<std::promise<void>>();
  asio::post(impl.acceptor.get_executor(), [&impl, closed] {
    error_code ignored;
    impl.acceptor.close(ignored);
    closed->set_value();
  });
  if (serving != &impl) closed->get_future().wait();
}

bool HttpServer::drain(std::chrono::steady_clock::time_point deadline) {
  stop_accepting();
  impl_->shared.drain();
  return impl_->shared.wait_until_empty(deadline);
}

}  // namespace ashlar::server
