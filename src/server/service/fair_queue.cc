// SPDX-License-Identifier: Apache-2.0
#include "server/service/fair_queue.h"

#include <algorithm>
#include <bit>
#include <new>

namespace ashlar::server {
namespace {

constexpr double kSecondsPerByte = 1e-7;  // of a task whose like is not known: reading JSON
constexpr size_t kLongBytes = size_t{1} << 20;
constexpr size_t kMaxClients = 256;  // that are remembered though nothing of theirs waits

}  // namespace

double FairQueue::expected(const Client& client, const Class& of, size_t bytes) {
  const auto known = client.costs_s.find(of);
  return known == client.costs_s.end() ? kSecondsPerByte * static_cast<double>(bytes) : known->second;
}

bool FairQueue::is_long(double expected_s, size_t bytes) { return expected_s >= kLong_s || bytes > kLongBytes; }

void FairQueue::push(Task task) {
  forget_idle();
  Client& client = clients_[task.client];
  const uint64_t id = client.id = task.client;
  const auto [at, first] = client.tasks.try_emplace(Class{task.kind, std::bit_width(task.bytes)});
  try {
    waiting_.insert(id);
    at->second.push_back({std::move(task), number_ + 1});
  } catch (...) {
    if (first) client.tasks.erase(at);
    if (client.tasks.empty()) waiting_.erase(id);
    throw;
  }
  if (client.waiting + client.running == 0) client.used_s = std::max(client.used_s, used_s_);
  client.last = ++number_;
  ++client.waiting;
  ++size_;
}

FairQueue::Tasks::iterator FairQueue::choose(Client& client, bool long_too) {
  auto best = client.tasks.end();
  double best_s = 0;
  for (auto at = client.tasks.begin(); at != client.tasks.end(); ++at) {
    const Waiting& first = at->second.front();
    const double cost = expected(client, at->first, first.task.bytes);
    if (!long_too && is_long(cost, first.task.bytes)) continue;
    if (first.overtaken_s > kOvertaken_s) return at;
    if (best == client.tasks.end() || cost < best_s) {
      best = at;
      best_s = cost;
    }
  }
  return best;
}

FairQueue::Client* FairQueue::choose(bool long_too) {
  Client* best = nullptr;
  for (const uint64_t id : waiting_) {
    Client& client = clients_.find(id)->second;
    if (best != nullptr && client.used_s >= best->used_s) continue;
    if (choose(client, long_too) != client.tasks.end()) best = &client;
  }
  return best;
}

std::optional<FairQueue::Taken> FairQueue::take(bool long_too) noexcept {
  Client* chosen = choose(long_too);
  if (chosen == nullptr) return std::nullopt;
  Client& client = *chosen;
  const auto at = choose(client, long_too);
  Waiting waiting = std::move(at->second.front());
  at->second.pop_front();
  Taken taken;
  taken.expected_s = expected(client, at->first, waiting.task.bytes);
  taken.is_long = is_long(taken.expected_s, waiting.task.bytes);
  taken.task = std::move(waiting.task);
  if (at->second.empty()) client.tasks.erase(at);
  if (--client.waiting == 0) waiting_.erase(client.id);
  ++client.running;
  --size_;
  used_s_ = std::max(used_s_, client.used_s);
  client.used_s += taken.expected_s;
  for (auto& [other, tasks] : client.tasks) {
    if (tasks.front().number < waiting.number) tasks.front().overtaken_s += taken.expected_s;
  }
  return taken;
}

void FairQueue::done(const Taken& taken, double seconds) noexcept {
  const auto found = clients_.find(taken.task.client);
  if (found == clients_.end()) return;
  Client& client = found->second;
  --client.running;
  client.used_s += seconds - taken.expected_s;
  try {
    const Class of{taken.task.kind, std::bit_width(taken.task.bytes)};
    const auto [known, first] = client.costs_s.try_emplace(of, seconds);
    if (!first) known->second += 0.5 * (seconds - known->second);
  } catch (const std::bad_alloc&) {  // then nothing is learned from it
  }
}

void FairQueue::dropped(const Taken& taken) noexcept {
  const auto found = clients_.find(taken.task.client);
  if (found == clients_.end()) return;
  --found->second.running;
  found->second.used_s -= taken.expected_s;
}

// What is known of clients that have gone must not grow for ever.
void FairQueue::forget_idle() {
  if (clients_.size() <= kMaxClients) return;
  auto oldest = clients_.end();
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    if (it->second.waiting + it->second.running > 0) continue;
    if (oldest == clients_.end() || it->second.last < oldest->second.last) oldest = it;
  }
  if (oldest != clients_.end()) clients_.erase(oldest);
}

}  // namespace ashlar::server
