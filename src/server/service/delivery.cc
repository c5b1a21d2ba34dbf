#include "server/service/delivery.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

namespace ashlar::server {
namespace {

using Clock = std::chrono::steady_clock;
using Pace = Delivery::Pace;

// So that appending cannot fail: by doubling, since a group may grow token by token.
template <class T>
void make_room(std::vector<T>& list, size_t more) {
  if (list.capacity() - list.size() < more) list.reserve(std::max(list.size() + more, 2 * list.size()));
}

// Appends tokens to those before them, where one event can say the same: without drafts and blocks.
bool join(Event& before, TokenChunk& next) {
  auto* first = std::get_if<TokenChunk>(&before);
  if (first == nullptr || first->n_drafted > 0 || next.n_drafted > 0) return false;
  if (!first->settled_in.empty() || !next.settled_in.empty()) return false;
  make_room(first->tokens, next.tokens.size());  // all or nothing: there is a log-probability for each token
  make_room(first->logprobs, next.logprobs.size());
  first->tokens.insert(first->tokens.end(), next.tokens.begin(), next.tokens.end());
  first->logprobs.insert(first->logprobs.end(), std::make_move_iterator(next.logprobs.begin()),
                         std::make_move_iterator(next.logprobs.end()));
  return true;
}

class Sink final : public EventSink {
 public:
  Sink(std::shared_ptr<Delivery> delivery, std::shared_ptr<EventReceiver> receiver, int32_t answer)
      : delivery_(std::move(delivery)), answer_(answer), end_{{std::move(receiver), answer, EndEvent()}} {}

  void on_tokens(const TokensEvent& event) override {
    constexpr auto kQuick = std::chrono::milliseconds(2);
    const Clock::time_point now = Clock::now();
    const Pace pace = last_ == Clock::time_point()     ? Pace::kAtOnce
                      : now - last_ < event.n * kQuick ? Pace::kQuick
                                                       : Pace::kUsual;
    last_ = now;
    delivery_->put(end_.front().receiver, answer_, TokenChunk(event), pace);
  }
  void on_end(EndEvent event) noexcept override {
    std::get<EndEvent>(end_.front().event) = std::move(event);
    delivery_->put_end(std::move(end_));
  }

 private:
  std::shared_ptr<Delivery> delivery_;
  int32_t answer_;
  std::list<Delivery::Item> end_;  // one item, with the receiver; the delivery's once it is filled
  Clock::time_point last_;         // when the answer's last tokens came
};

// A receiver that breaks must not end the others: they share this thread.
template <class Task>
void safely(EventReceiver& receiver, const Task& task) {
  try {
    try {
      task();
    } catch (const std::exception& error) {
      receiver.on_failure(error.what());
    }
  } catch (const std::exception&) {  // nothing is left to do for it
  }
}

}  // namespace

Delivery::Delivery(std::function<void()> tick) : tick_(std::move(tick)) {}

Delivery::~Delivery() { stop(); }

void Delivery::start() {
  thread_ = std::thread([this] { run(); });
}

void Delivery::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::list<Item> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(items_);
  }
}

std::shared_ptr<EventSink> Delivery::sink(std::shared_ptr<EventReceiver> receiver, int32_t answer) {
  return std::make_shared<Sink>(shared_from_this(), std::move(receiver), answer);
}

void Delivery::put(const std::shared_ptr<EventReceiver>& receiver, int32_t answer, TokenChunk chunk, Pace pace) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    at_once_ = at_once_ || pace == Pace::kAtOnce;
    all_quick_ = all_quick_ && pace == Pace::kQuick;
    const bool continues = !items_.empty() && items_.back().receiver == receiver && items_.back().answer == answer &&
                           join(items_.back().event, chunk);
    if (!continues) items_.push_back({receiver, answer, std::move(chunk)});
    if (gathering_ && !at_once_) return;
  }
  ready_.notify_one();
}

void Delivery::put_end(std::list<Item> end) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    at_once_ = true;
    all_quick_ = false;
    items_.splice(items_.end(), end);
  }
  ready_.notify_one();
}

void Delivery::hand_on(const Item& item) {
  if (const auto* chunk = std::get_if<TokenChunk>(&item.event)) {
    item.receiver->on_tokens(item.answer, *chunk);
  } else {
    item.receiver->on_end(item.answer, std::get<EndEvent>(item.event));
  }
}

void Delivery::run() {
  constexpr auto kTick = std::chrono::milliseconds(50);
  constexpr auto kUsualPace = std::chrono::milliseconds(2);
  constexpr auto kQuickPace = std::chrono::milliseconds(8);
  auto next_group = Clock::now();
  auto next_tick = Clock::now() + kTick;
  std::list<Item> items;
  for (;;) {
    bool all_quick = false;
    {
      std::unique_lock lock(mutex_);
      gathering_ = true;
      ready_.wait_until(lock, next_group, [this] { return stop_ || at_once_; });
      gathering_ = false;
      ready_.wait_until(lock, next_tick, [this] { return stop_ || !items_.empty(); });
      if (stop_) return;
      items.swap(items_);
      at_once_ = false;
      all_quick = std::exchange(all_quick_, true);
    }
    if (!items.empty()) next_group = Clock::now() + (all_quick ? kQuickPace : kUsualPace);
    for (const Item& item : items) safely(*item.receiver, [&] { hand_on(item); });
    for (auto item = items.begin(); item != items.end(); ++item) {
      EventReceiver& receiver = *item->receiver;
      const auto next = std::next(item);
      const bool last = next == items.end() || next->receiver != item->receiver;
      if (last) safely(receiver, [&] { receiver.on_pause(); });
    }
    items.clear();
    if (Clock::now() < next_tick) continue;
    try {
      tick_();
    } catch (const std::exception&) {  // out of memory: the next tick does what this one could not
    }
    next_tick = Clock::now() + kTick;
  }
}

}  // namespace ashlar::server
