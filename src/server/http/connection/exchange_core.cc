// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/exchange_core.h"

#include <charconv>
#include <utility>

#include "server/http/response_head.h"

// Callbacks are called and destroyed outside the lock: they may own the Exchange, whose destructor comes back here.

namespace ashlar::server {
namespace {

void append_chunk(std::string& out, const std::string& payload) {
  char size[16];
  const auto end = std::to_chars(size, size + sizeof size, payload.size(), 16).ptr;
  out.append(size, end).append("\r\n").append(payload).append("\r\n");
}

}  // namespace

ExchangeCore::ExchangeCore(HttpRequest request, size_t max_backlog_bytes, std::function<void()> wake,
                           std::shared_ptr<MemoryBudget> memory)
    : request_(std::move(request)),
      max_backlog_bytes_(max_backlog_bytes),
      wake_(std::move(wake)),
      memory_(std::move(memory)),
      held_(memory_.get()) {}

void ExchangeCore::wake_if_idle() {
  if (!idle_) return;
  if (wake_) wake_();  // where it throws, the next one is to try again
  idle_ = false;
}

void ExchangeCore::add_header(std::string name, std::string value) {
  const std::lock_guard lock(mutex_);
  extra_headers_.push_back({std::move(name), std::move(value)});
}

bool ExchangeCore::respond(HttpResponse response) {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (answered_ || gone_) return false;
  if (!held_.set(response.body.size())) {
    response = error_response(request_.path, 503, "server_error",
                              "Too many large answers wait for their clients to read them; try again later.");
    response.headers.push_back({"Retry-After", "1"});
  }
  answered_ = ended_ = true;
  dropped.swap(on_gone_);
  head_ = std::move(response);
  wake_if_idle();
  return true;
}

bool ExchangeCore::begin_stream(int status, std::string content_type, Headers headers) {
  if (content_type.starts_with("text/event-stream")) {
    headers.push_back({"Cache-Control", "no-store"});
    headers.push_back({"X-Accel-Buffering", "no"});
  }
  const std::lock_guard lock(mutex_);
  if (answered_ || gone_) return false;
  head_ = HttpResponse{status, std::move(content_type), {}, std::move(headers)};
  answered_ = streaming_ = true;  // nothing can be sent before the head is there
  wake_if_idle();
  return true;
}

bool ExchangeCore::send(std::string chunk) {
  const std::lock_guard lock(mutex_);
  if (!streaming_ || ended_ || gone_) return false;
  const size_t waiting = pending_.size() + in_flight_;
  if (waiting > max_backlog_bytes_ || !held_.set(waiting + chunk.size())) {
    gone_ = true;
    if (wake_) wake_();  // even if it is writing: that write may never end
    return false;
  }
  if (chunk.empty() || !request_.wants_body()) return true;
  if (pending_.empty()) {
    pending_ = std::move(chunk);
  } else {
    pending_ += chunk;
  }
  wake_if_idle();
  return true;
}

size_t ExchangeCore::backlog() const {
  const std::lock_guard lock(mutex_);
  return pending_.size() + in_flight_;
}

void ExchangeCore::finish() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (!streaming_ || ended_ || gone_) return;
  ended_ = true;
  dropped.swap(on_gone_);
  wake_if_idle();
}

void ExchangeCore::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (!ended_) on_gone_.swap(callback);
      return;  // the parameter, and an earlier callback in it, dies after the lock
    }
  }
  if (callback) callback();
}

bool ExchangeCore::answered() const {
  const std::lock_guard lock(mutex_);
  return answered_;
}

bool ExchangeCore::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void ExchangeCore::abandon() noexcept {
  try {
    if (!answered() &&
        respond(error_response(request_.path, 500, "server_error", "The server failed to answer this request."))) {
      return;
    }
  } catch (const std::exception&) {  // no memory for as much: the connection is cut
  }
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(on_gone_);
  if (!ended_) ended_ = cut_ = true;
  try {
    wake_if_idle();
  } catch (const std::exception&) {  // the connection looks for itself after a while
  }
}

void ExchangeCore::make_head(bool keep_alive, Output& out) {
  Framing framing;
  framing.http_1_0 = request_.http_1_0;
  chunked_ = framing.chunked = streaming_ && !request_.http_1_0 && request_.wants_body();
  if (!streaming_) framing.content_length = head_->body.size();
  // An answer that ends with the connection leaves no connection; an answer to HEAD has no body to end.
  keep_alive_ = framing.keep_alive = keep_alive && (chunked_ || !streaming_ || !request_.wants_body());
  Headers headers = std::move(head_->headers);
  headers.insert(headers.end(), extra_headers_.begin(), extra_headers_.end());
  out.bytes = response_head(head_->status, head_->content_type, headers, request_.id, framing);
  if (request_.wants_body() && head_->status != 204 && head_->status != 304 && !streaming_) {
    pending_ = std::move(head_->body);
  }
  head_.reset();
  head_taken_ = true;
}

ExchangeCore::Output ExchangeCore::take(bool keep_alive) {
  const std::lock_guard lock(mutex_);
  Output out;
  if (gone_ || cut_) {
    out.last = out.cut = true;
    return out;
  }
  if (head_) make_head(keep_alive, out);
  // A large body follows its head in a call of its own: it is not copied.
  const bool later = !out.bytes.empty() && !streaming_ && pending_.size() > MemoryBudget::kSmall;
  if (!pending_.empty() && !later) {
    if (chunked_) {
      append_chunk(out.bytes, pending_);
    } else if (out.bytes.empty()) {
      out.bytes = std::move(pending_);
    } else {
      out.bytes += pending_;
    }
    pending_ = {};
  }
  out.last = ended_ && pending_.empty();
  out.keep_alive = keep_alive_;
  if (out.last && chunked_) out.bytes += "0\r\n\r\n";
  in_flight_ = out.bytes.size();
  idle_ = out.bytes.empty() && !out.last;
  held_.set(in_flight_ + pending_.size());
  return out;
}

bool ExchangeCore::head_taken() const {
  const std::lock_guard lock(mutex_);
  return head_taken_;
}

void ExchangeCore::set_in_flight(size_t bytes) {
  const std::lock_guard lock(mutex_);
  in_flight_ = bytes;
}

bool ExchangeCore::client_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ && !cut_) return false;
    gone_ = true;
    callback.swap(on_gone_);
  }
  try {
    if (callback) callback();
  } catch (...) {  // the connection that it concerns is ending anyway, and the thread serves others
  }
  return true;
}

void ExchangeCore::detach() {
  client_gone();
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(wake_);
  std::string().swap(pending_);
  head_.reset();
  held_.set(0);
}

}  // namespace ashlar::server
