// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the threads that produce an answer and the connection that writes it meet. Private to the transport.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http/connection/memory_budget.h"
#include "server/http/http_message.h"

namespace ashlar::server {

class ExchangeCore {
 public:
  /// `wake` is called, under the lock and by any thread, when the connection should look again: it must only post.
  /// `memory`: what the bytes that wait for the client count towards; null: no limit.
  ExchangeCore(HttpRequest request, size_t max_backlog_bytes, std::function<void()> wake,
               std::shared_ptr<MemoryBudget> memory = nullptr);

  // For Exchange; see there.
  const HttpRequest& request() const { return request_; }
  void add_header(std::string name, std::string value);
  bool respond(HttpResponse response);
  bool begin_stream(int status, std::string content_type, Headers headers);
  bool send(std::string chunk);
  size_t backlog() const;
  void finish();
  void on_gone(std::function<void()> callback);
  bool gone() const;
  void abandon() noexcept;

  // For the connection.
  struct Output {
    std::string bytes;        ///< to write now
    bool last = false;        ///< nothing comes after them
    bool cut = false;         ///< with last: the answer is incomplete, close the connection hard
    bool keep_alive = false;  ///< with last: the connection can take another request
  };
  /// What can be written; without bytes and not last, `wake` will be called when there is more. The head is made at the
  /// first call that has something, with `keep_alive` as the wish of then.
  Output take(bool keep_alive);
  bool head_taken() const;
  /// How much of what was taken is not written yet; it counts towards the backlog.
  void set_in_flight(size_t bytes);
  /// The client went away: runs the callback unless the answer is complete. Returns whether it was incomplete.
  bool client_gone();
  /// The connection ends: `wake` is not called any more. The client is gone for an answer that is incomplete.
  void detach();

 private:
  bool answered() const;
  void make_head(bool keep_alive, Output& out);
  void wake_if_idle();

  const HttpRequest request_;
  const size_t max_backlog_bytes_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::function<void()> on_gone_;
  const std::shared_ptr<MemoryBudget> memory_;
  MemoryShare held_;
  Headers extra_headers_;
  std::optional<HttpResponse> head_;  ///< status, type and headers, and for respond() the body; until it was taken
  std::string pending_;
  size_t in_flight_ = 0;
  bool head_taken_ = false;
  bool streaming_ = false;
  bool chunked_ = false;
  bool keep_alive_ = false;
  bool answered_ = false;  ///< respond() or begin_stream() was called
  bool ended_ = false;     ///< nothing more will be added
  bool cut_ = false;
  bool gone_ = false;
  bool idle_ = false;  ///< the connection waits for `wake`
};

}  // namespace ashlar::server
