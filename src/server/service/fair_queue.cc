#include "server/service/fair_queue.h"

#include <algorithm>
#include <bit>

namespace ashlar::server {
namespace {

constexpr double kSecondsPerByte = 1e-7;  // of a task whose like is not known: reading JSON
constexpr size_t kLongBytes = size_t{1} << 20;
constexpr size_t kMaxClients = 256;  // that are remembered though nothing of theirs waits

}  // namespace

FairQueue::Class FairQueue::class_of(const Task& task) { return {task.kind, std::bit_width(task.bytes)}; }

double FairQueue::expected(const Client& client, const Class& of, size_t bytes) {
  const auto known = client.costs_s.find(of);
  return known == client.costs_s.end() ? kSecondsPerByte * static_cast<double>(bytes) : known->second;
}

bool FairQueue::is_long(double expected_s, size_t bytes) { return expected_s >= kLong_s || bytes > kLongBytes; }

void FairQueue::push(Task task) {
  forget_idle();
  Client& client = clients_[task.client];
  if (client.waiting + client.running == 0) client.used_s = std::max(client.used_s, used_s_);
  client.id = task.client;
  client.last = ++number_;
  waiting_.insert(client.id);
  ++client.waiting;
  ++size_;
  client.tasks[class_of(task)].push_back({std::move(task), number_});
}

const FairQueue::Choice* FairQueue::choose(const Client& client, bool long_too) {
  const Choice* best = nullptr;
  double best_s = 0;
  for (const Choice& choice : client.tasks) {
    const Waiting& first = choice.second.front();
    const double cost = expected(client, choice.first, first.task.bytes);
    if (!long_too && is_long(cost, first.task.bytes)) continue;
    if (first.overtaken_s > kOvertaken_s) return &choice;
    if (best == nullptr || cost < best_s) {
      best = &choice;
      best_s = cost;
    }
  }
  return best;
}

const FairQueue::Client* FairQueue::choose(bool long_too) const {
  const Client* best = nullptr;
  for (const uint64_t id : waiting_) {
    const Client& client = clients_.at(id);
    if (best != nullptr && client.used_s >= best->used_s) continue;
    if (choose(client, long_too) != nullptr) best = &client;
  }
  return best;
}

bool FairQueue::can_take(bool long_too) const { return choose(long_too) != nullptr; }

std::optional<FairQueue::Taken> FairQueue::take(bool long_too) {
  const Client* chosen = choose(long_too);
  if (chosen == nullptr) return std::nullopt;
  Client& client = clients_.at(chosen->id);
  const Class of = choose(client, long_too)->first;
  const auto at = client.tasks.find(of);
  Waiting waiting = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) client.tasks.erase(at);
  if (--client.waiting == 0) waiting_.erase(client.id);
  ++client.running;
  --size_;
  Taken taken;
  taken.expected_s = expected(client, of, waiting.task.bytes);
  taken.is_long = is_long(taken.expected_s, waiting.task.bytes);
  taken.task = std::move(waiting.task);
  used_s_ = std::max(used_s_, client.used_s);
  client.used_s += taken.expected_s;
  for (auto& [other, tasks] : client.tasks) {
    if (tasks.front().number < waiting.number) tasks.front().overtaken_s += taken.expected_s;
  }
  return taken;
}

void FairQueue::done(const Taken& taken, double seconds) {
  const auto found = clients_.find(taken.task.client);
  if (found == clients_.end()) return;
  Client& client = found->second;
  --client.running;
  client.used_s += seconds - taken.expected_s;
  const auto [known, first] = client.costs_s.emplace(class_of(taken.task), seconds);
  if (!first) known->second += 0.5 * (seconds - known->second);
}

void FairQueue::dropped(const Taken& taken) {
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
