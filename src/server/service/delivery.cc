// SPDX-License-Identifier: Apache-2.0
#include "server/service/delivery.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

#include "base/error.h"

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
bool join(Event& before, Event& after) {
  auto* first = std::get_if<TokenChunk>(&before);
  auto* second = std::get_if<TokenChunk>(&after);
  if (first == nullptr || second == nullptr || first->n_drafted > 0 || second->n_drafted > 0) return false;
  TokenChunk& next = *second;
  if (!first->unmask_pass.empty() || !next.unmask_pass.empty()) return false;
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
      : delivery_(std::move(delivery)), answer_(answer), end_{{std::move(receiver), answer, EndEvent(), true}} {}

  void on_tokens(const TokensEvent& event) override {
    constexpr auto kQuick = std::chrono::milliseconds(8);
    const Clock::time_point now = Clock::now();
    const Pace pace = last_ == Clock::time_point()     ? Pace::kAtOnce
                      : now - last_ < event.n * kQuick ? Pace::kQuick
                                                       : Pace::kUsual;
    last_ = now;
    delivery_->put(end_.front().receiver, answer_, TokenChunk(event), pace);
  }
  void on_prompt(const PromptEvent& event) override {
    delivery_->put(end_.front().receiver, answer_, PromptChunk(event), Pace::kUsual);
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
      receiver.on_failure(message_of(error));
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

// One past the last item of the receiver, whose items are all together, or the end of the list.
std::list<Delivery::Item>::iterator Delivery::after(const EventReceiver* receiver) {
  const auto last = std::find_if(items_.rbegin(), items_.rend(),
                                 [receiver](const Item& item) { return item.receiver.get() == receiver; });
  return last == items_.rend() ? items_.end() : last.base();
}

void Delivery::put(const std::shared_ptr<EventReceiver>& receiver, int32_t answer, Event event, Pace pace) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    const bool at_once = pace == Pace::kAtOnce;
    const auto place = after(receiver.get());
    Item* before = place == items_.begin() ? nullptr : &*std::prev(place);
    if (before != nullptr && before->receiver == receiver && before->answer == answer && join(before->event, event)) {
      before->at_once = before->at_once || at_once;
    } else {
      items_.insert(place, {receiver, answer, std::move(event), at_once});
    }
    at_once_ = at_once_ || at_once;
    all_quick_ = all_quick_ && pace != Pace::kUsual;
    if (gathering_ && !at_once_) return;
  }
  ready_.notify_one();
}

void Delivery::put_end(std::list<Item> end) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    at_once_ = true;
    items_.splice(after(end.front().receiver.get()), end);
  }
  ready_.notify_one();
}

// What must not wait for the next group, with all that its receivers were to get before.
std::list<Delivery::Item> Delivery::take_urgent() {
  std::list<Item> urgent;
  for (auto first = items_.begin(); first != items_.end();) {
    const auto others =
        std::find_if(first, items_.end(), [&](const Item& item) { return item.receiver != first->receiver; });
    const bool at_once = std::any_of(first, others, [](const Item& item) { return item.at_once; });
    if (at_once) urgent.splice(urgent.end(), items_, first, others);
    first = others;
  }
  return urgent;
}

void Delivery::hand_on(const Item& item) {
  if (const auto* chunk = std::get_if<TokenChunk>(&item.event)) {
    item.receiver->on_tokens(item.answer, *chunk);
  } else if (const auto* prompt = std::get_if<PromptChunk>(&item.event)) {
    item.receiver->on_prompt(item.answer, *prompt);
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
    {
      std::unique_lock lock(mutex_);
      gathering_ = true;
      ready_.wait_until(lock, next_group, [this] { return stop_ || at_once_; });
      gathering_ = false;
      ready_.wait_until(lock, next_tick, [this] { return stop_ || !items_.empty(); });
      if (stop_) return;
      at_once_ = false;
      if (Clock::now() < next_group) {
        items = take_urgent();
      } else if (!items_.empty()) {
        items.swap(items_);
        next_group = Clock::now() + (std::exchange(all_quick_, true) ? kQuickPace : kUsualPace);
      }
    }
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
