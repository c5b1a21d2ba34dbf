// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "server/http/connection/connection.h"
#include "server/http/response_head.h"

// What a connection says: requests in, answers out. How bytes come and go is in connection.cc.

namespace ashlar::server {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::chrono::seconds kLookAnyway{2};  // for what there is to write: waking the connection needs memory

HttpResponse timed_out(std::string_view path, std::string_view part) {
  return error_response(path, 408, "timeout_error",
                        "The " + std::string(part) + " of the request took too long to arrive.");
}

}  // namespace

Connection::Awaitable Connection::serve(std::shared_ptr<Connection> self) {
  if (!refuse_) set_waiting(true);
  if (tls_) {
    const bool shaken = co_await shake_hands();
    if (!shaken) co_return;
  }
  asio::co_spawn(socket_.get_executor(), pump(self), [ending = Ending(self, &Connection::lost)](std::exception_ptr) {});
  if (refuse_) {
    HttpResponse response = error_response({}, 503, "server_error", "Too many connections are open; try again later.");
    response.headers.push_back({"Retry-After", "1"});
    const std::string id = request_id({});
    co_await refuse(response, id);
  } else {
    for (bool more = true; more;) more = co_await serve_one();
  }
  co_await close_gently();
}

/// Takes one request and answers it. Returns whether the connection can take another.
Connection::AwaitableBool Connection::serve_one() {
  RequestParser parser({options_.max_header_bytes, options_.max_body_bytes});
  set_waiting(true);
  const bool has_head = co_await read_head(parser);
  set_waiting(false);
  if (!has_head) co_return false;
  ++n_requests_;
  shared_.count_request();
  HttpRequest head = parser.request();
  head.peer = peer_;
  head.id = request_id(head.header("X-Request-Id"));
  bool keep_alive = parser.keep_alive() && n_requests_ < options_.max_requests_per_connection;

  std::optional<HttpResponse> refusal;
  if (options_.check_head) refusal = options_.check_head(head);
  if (refusal) {
    keep_alive = keep_alive && parser.state() == RequestParser::State::kDone;
  } else {
    const bool complete = co_await read_body(parser);
    if (!complete) co_return false;
    head.body = parser.take_request().body;
  }
  const bool more = co_await answer(std::move(head), std::move(refusal), keep_alive);
  body_memory_.set(0);
  co_return socket_.is_open() && more;
}

Connection::AwaitableBool Connection::read_head(RequestParser& parser) {
  auto deadline = Clock::now() + (n_requests_ == 0 ? options_.header_timeout : options_.idle_timeout);
  bool started = false;
  while (parser.state() == RequestParser::State::kHead) {
    if (!input_.empty()) {
      consume(parser.feed(input_));
      if (!started && parser.started()) deadline = Clock::now() + options_.header_timeout;
      started = parser.started();
      continue;
    }
    const bool late = Clock::now() >= deadline;
    if (ended_ || (!started && (late || shared_.draining()))) {
      close_socket();  // no one waits for an answer
      co_return false;
    }
    if (late) {
      const std::string id = report_refusal({}, 408);
      co_await refuse(timed_out({}, "head"), id);
      co_return false;
    }
    co_await wait_until(deadline);
  }
  if (parser.state() != RequestParser::State::kFailed) co_return true;
  const std::string id = report_refusal(parser.request(), parser.failure().status);
  co_await refuse(parser.failure(), id);
  co_return false;
}

/// The deadline of a body once `bytes` more of it have come: what came early makes up for no later silence.
Connection::Clock::time_point Connection::put_off(Clock::time_point deadline, size_t bytes,
                                                  Clock::time_point end) const {
  const std::chrono::microseconds extra(1'000'000 * bytes / std::max<size_t>(1, options_.min_body_bytes_per_s));
  return std::min({deadline + extra, Clock::now() + options_.body_timeout, end});
}

Connection::AwaitableBool Connection::read_body(RequestParser& parser) {
  const auto end = Clock::now() + options_.max_body_time;
  auto deadline = std::min(end, Clock::now() + options_.body_timeout);
  size_t paid = 0;  // bytes that the deadline was put off for
  if (parser.expects_continue() && input_.empty()) {
    const bool written = co_await write(kContinue);
    if (!written) co_return false;
  }
  size_t offered = 0;  // what the parser has seen of input_ and left lying for want of more
  while (parser.state() == RequestParser::State::kBody) {
    if (input_.size() > offered) {
      consume(parser.feed(input_));
      offered = input_.size();
      const size_t bytes = parser.body_bytes();
      deadline = put_off(deadline, bytes - std::exchange(paid, bytes), end);
      if (body_memory_.set(bytes)) continue;
      HttpResponse busy = error_response(parser.request().path, 503, "server_error",
                                         "Too many large requests are being served; try again later.");
      busy.headers.push_back({"Retry-After", "1"});
      parser.drop_body();  // at once, lest others that grow meanwhile find no room either
      body_memory_.set(0);
      const std::string id = report_refusal(parser.request(), busy.status);
      co_await refuse(busy, id);
      co_return false;
    }
    if (ended_) {
      close_socket();
      co_return false;
    }
    if (Clock::now() >= deadline) {
      const std::string id = report_refusal(parser.request(), 408);
      co_await refuse(timed_out(parser.request().path, "body"), id);
      co_return false;
    }
    co_await wait_until(deadline);
  }
  if (parser.state() == RequestParser::State::kDone) co_return true;
  const std::string id = report_refusal(parser.request(), parser.failure().status);
  co_await refuse(parser.failure(), id);
  co_return false;
}

/// Of a request that is about to be refused; returns its id.
std::string Connection::report_refusal(const HttpRequest& request, int status) {
  HttpRequest head;  // without the body
  head.method = request.method;
  head.path = request.path;
  head.peer = peer_;
  head.id = request_id(request.header("X-Request-Id"));
  try {
    if (options_.on_refused) options_.on_refused(head, status);
  } catch (const std::exception&) {  // memory: the client still gets its answer
  }
  return head.id;
}

/// Answers what never became a request of the handler's; the connection closes after it.
Connection::Awaitable Connection::refuse(const HttpResponse& response, std::string_view id) {
  Framing framing;
  framing.keep_alive = false;
  framing.content_length = response.body.size();
  const std::string bytes =
      response_head(response.status, response.content_type, response.headers, id, framing) + response.body;
  co_await write(bytes);
}

void Connection::handle(std::optional<HttpResponse> refusal) {
  const auto exchange = std::make_shared<Exchange>(core_);
  if (refusal) {
    exchange->respond(std::move(*refusal));
    return;
  }
  try {
    shared_.handler()(exchange);
  } catch (...) {  // the exchange, once let go, answers with 500
  }
}

Connection::AwaitableBool Connection::answer(HttpRequest request, std::optional<HttpResponse> refusal,
                                             bool keep_alive) {
  const bool ends_with_connection = request.http_1_0;
  core_ = std::make_shared<ExchangeCore>(
      std::move(request), options_.max_backlog_bytes,
      [weak = weak_from_this()] {
        if (auto self = weak.lock()) asio::post(self->socket_.get_executor(), [self] { self->woken(); });
      },
      options_.memory);
  handle(std::move(refusal));
  bool more = false;
  for (;;) {
    const bool was_last = ended_ && input_.empty();
    ExchangeCore::Output out = core_->take(keep_alive && !was_last && !shared_.draining());
    if (out.bytes.empty() && !out.last && needs_probe()) {
      probed_ = true;
      out.bytes = kContinue;
    }
    bool written = !out.cut;
    if (!out.bytes.empty()) written = co_await write(out.bytes);
    if (!written || !socket_.is_open()) {
      boost::system::error_code ignored;
      // Without chunks only a reset shows the client that it did not get everything.
      if (ends_with_connection) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
      core_->client_gone();
      close_socket();
      break;
    }
    if (out.last) {
      more = out.keep_alive;
      break;
    }
    if (out.bytes.empty()) co_await wait_until(Clock::now() + kLookAnyway);
  }
  core_->detach();
  core_.reset();
  co_return more;
}

}  // namespace ashlar::server
