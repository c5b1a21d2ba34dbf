// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/connection_set.h"

#include <vector>

namespace ashlar::server {

HttpCounters ConnectionSet::counters() const {
  HttpCounters out;
  out.refused = refused_.load();
  out.requests = requests_.load();
  out.accept_errors = accept_errors_.load();
  out.memory_used = options_.memory->used();
  out.memory_total = options_.memory->total();
  const std::lock_guard lock(mutex_);
  out.accepted = accepted_;
  out.yielded = yielded_;
  out.open_connections = open_.size();
  return out;
}

size_t ConnectionSet::make_room() {
  std::shared_ptr<Endable> leaver;  // let go after the lock
  const std::lock_guard lock(mutex_);
  const size_t staying = open_.size() - leaving_;
  if (staying < options_.max_connections) return 0;
  Entry* longest = nullptr;
  for (auto& [key, entry] : open_) {
    if (entry.waits_since == 0 || entry.leaves) continue;
    if (longest == nullptr || entry.waits_since < longest->waits_since) longest = &entry;
  }
  if (longest != nullptr) leaver = longest->connection.lock();
  if (leaver == nullptr) return staying + 1 - options_.max_connections;
  leaver->yield();
  longest->leaves = true;
  ++leaving_;
  ++yielded_;
  return 0;
}

void ConnectionSet::set_waiting(const Endable* connection, bool waiting) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(connection);
  if (found == open_.end()) return;
  Entry& entry = found->second;
  entry.waits_since = waiting ? ++waits_ : 0;
  if (waiting || !entry.leaves) return;
  entry.leaves = false;  // its request came first
  --leaving_;
}

bool ConnectionSet::add(const std::shared_ptr<Endable>& connection) {
  const std::lock_guard lock(mutex_);
  if (ending_) return false;
  ++accepted_;
  open_.emplace(connection.get(), Entry{connection});
  return true;
}

void ConnectionSet::remove(const Endable* connection) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(connection);
  if (found != open_.end()) {
    leaving_ -= found->second.leaves ? 1 : 0;
    open_.erase(found);
  }
  if (open_.empty()) emptied_.notify_all();
}

void ConnectionSet::drain() {
  draining_ = true;
  std::vector<std::shared_ptr<Endable>> held;  // let go after the lock
  const std::lock_guard lock(mutex_);
  held.reserve(open_.size());  // what is thrown below would let a connection go within the lock
  for (const auto& [key, entry] : open_) {
    if (auto connection = entry.connection.lock()) held.push_back(std::move(connection));
  }
  for (const auto& connection : held) connection->wake();
}

void ConnectionSet::abort_all() {
  std::vector<std::shared_ptr<Endable>> held;
  const std::lock_guard lock(mutex_);
  ending_ = true;
  held.reserve(open_.size());  // as in drain()
  for (const auto& [key, entry] : open_) {
    if (auto connection = entry.connection.lock()) held.push_back(std::move(connection));
  }
  for (const auto& connection : held) connection->abort();
}

bool ConnectionSet::wait_until_empty(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_until(lock, deadline, [this] { return open_.empty(); });
}

}  // namespace ashlar::server
