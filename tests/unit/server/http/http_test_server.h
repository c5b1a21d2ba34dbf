// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server with a handler for each thing that tests want to happen.

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/http/http_server.h"

namespace ashlar::server {

/// Waits up to ten seconds for `condition`.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline size_t open_descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// /echo answers with method, path, query and body. /keep keeps the exchange for the test, as does /open after
/// beginning a stream; both count on_gone. /drop lets the exchange go, /cut does so in mid-stream, /throw throws.
class TestServer {
 public:
  explicit TestServer(HttpOptions options = {})
      : server_(std::make_unique<HttpServer>(std::move(options), [this](std::shared_ptr<Exchange> e) { handle(e); })) {
    server_->start();
  }
  ~TestServer() { stop(); }

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  uint16_t port() const { return server_->port(); }
  void stop() { server_.reset(); }

  /// The next exchange that was kept; null if none comes.
  std::shared_ptr<Exchange> kept() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return !kept_.empty(); })) return nullptr;
    auto exchange = kept_.front();
    kept_.erase(kept_.begin());
    return exchange;
  }
  std::atomic<int> n_gone{0};

 private:
  void handle(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.path == "/throw") throw std::runtime_error("secret detail");
    if (request.path == "/drop") return;
    if (request.path == "/open" || request.path == "/cut") exchange->begin_stream(200, "text/event-stream");
    if (request.path == "/cut") {
      exchange->send("data: half\n\n");
    } else if (request.path == "/keep" || request.path == "/open") {
      exchange->on_gone([this] { ++n_gone; });
      const std::lock_guard lock(mutex_);
      kept_.push_back(exchange);
      arrived_.notify_all();
    } else if (request.path == "/three") {
      exchange->begin_stream(200, "text/plain");
      for (const char* part : {"one ", "two ", "three"}) exchange->send(part);
      exchange->finish();
    } else {
      HttpResponse response;
      response.content_type = "text/plain";
      response.body = request.method + " " + request.path + "?" + request.query + " " + request.body;
      exchange->respond(std::move(response));
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Exchange>> kept_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace ashlar::server
