// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the connections of a server share.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "server/http/http_server.h"

namespace ashlar::server {

/// A connection as the set sees it. All calls only post, and may come from any thread.
class Endable {
 public:
  virtual ~Endable() = default;
  virtual void wake() = 0;   ///< look at ConnectionSet::draining() again
  virtual void abort() = 0;  ///< close now
  virtual void yield() = 0;  ///< close if no request has come in full
};

/// Thread-safe. Knows which connections are open, to end them and to wait for their end.
class ConnectionSet {
 public:
  ConnectionSet(HttpOptions options, Handler handler) : options_(std::move(options)), handler_(std::move(handler)) {}

  const HttpOptions& options() const { return options_; }
  const Handler& handler() const { return handler_; }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }
  void count_request() { requests_.fetch_add(1, std::memory_order_relaxed); }
  void count_refused() { refused_.fetch_add(1, std::memory_order_relaxed); }
  void count_accept_error() { accept_errors_.fetch_add(1, std::memory_order_relaxed); }
  HttpCounters counters() const;

  /// How many connections there are beyond the limit if one more is accepted; 0 if it fits, for which the connection
  /// that has waited longest for a request may be made to leave.
  size_t make_room();
  /// False if the server is ending: the connection must not be started.
  bool add(const std::shared_ptr<Endable>& connection);
  void remove(const Endable* connection);
  /// Whether it waits for its client to send a request.
  void set_waiting(const Endable* connection, bool waiting);
  /// From here on connections close as soon as they are idle.
  void drain();
  /// From here on add() refuses; what is open is aborted.
  void abort_all();
  /// Whether none is open by then.
  bool wait_until_empty(std::chrono::steady_clock::time_point deadline);

 private:
  const HttpOptions options_;
  const Handler handler_;
  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  struct Entry {
    std::weak_ptr<Endable> connection;
    uint64_t waits_since = 0;  // in the order of the first wait; 0: it does not wait
    bool leaves = false;       // it was asked to
  };
  std::unordered_map<const Endable*, Entry> open_;
  uint64_t waits_ = 0, yielded_ = 0;
  size_t leaving_ = 0;
  uint64_t accepted_ = 0;
  bool ending_ = false;
  std::atomic<bool> draining_{false};
  std::atomic<uint64_t> requests_{0}, refused_{0}, accept_errors_{0};
};

}  // namespace ashlar::server
