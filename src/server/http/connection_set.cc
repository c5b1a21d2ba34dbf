#include "server/http/connection_set.h"

#include <vector>

namespace ashlar::server {

bool ConnectionSet::reserve_body(size_t bytes) {
  const size_t before = body_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (before + bytes <= options_.max_total_body_bytes) return true;
  release_body(bytes);
  return false;
}

HttpCounters ConnectionSet::counters() const {
  const std::lock_guard lock(mutex_);
  return {accepted_, refused_.load(), requests_.load(), accept_errors_.load(), open_.size()};
}

size_t ConnectionSet::size() const {
  const std::lock_guard lock(mutex_);
  return open_.size();
}

bool ConnectionSet::add(const std::shared_ptr<Endable>& connection) {
  const std::lock_guard lock(mutex_);
  if (ending_) return false;
  ++accepted_;
  open_.emplace(connection.get(), connection);
  return true;
}

void ConnectionSet::remove(const Endable* connection) {
  const std::lock_guard lock(mutex_);
  open_.erase(connection);
  if (open_.empty()) emptied_.notify_all();
}

void ConnectionSet::drain() {
  draining_ = true;
  std::vector<std::shared_ptr<Endable>> held;  // let go after the lock
  const std::lock_guard lock(mutex_);
  held.reserve(open_.size());  // what is thrown below would let a connection go within the lock
  for (const auto& [key, weak] : open_) {
    if (auto connection = weak.lock()) held.push_back(std::move(connection));
  }
  for (const auto& connection : held) connection->poke();
}

void ConnectionSet::abort_all() {
  std::vector<std::shared_ptr<Endable>> held;
  const std::lock_guard lock(mutex_);
  ending_ = true;
  held.reserve(open_.size());  // as in drain()
  for (const auto& [key, weak] : open_) {
    if (auto connection = weak.lock()) held.push_back(std::move(connection));
  }
  for (const auto& connection : held) connection->abort();
}

bool ConnectionSet::wait_until_empty(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_until(lock, deadline, [this] { return open_.empty(); });
}

}  // namespace ashlar::server
