// SPDX-License-Identifier: Apache-2.0
#include "engine/event_queue.h"

#include <utility>

namespace ashlar {

TokenChunk::TokenChunk(const TokensEvent& event)
    : tokens(event.tokens, event.tokens + event.n), n_drafted(event.n_drafted), at(event.at) {
  if (event.logprobs != nullptr) logprobs.assign(event.logprobs, event.logprobs + event.n);
  if (event.unmask_pass != nullptr) unmask_pass.assign(event.unmask_pass, event.unmask_pass + event.n);
}

void EventQueue::on_tokens(const TokensEvent& event) {
  TokenChunk chunk(event);
  {
    const std::lock_guard lock(mutex_);
    chunks_.emplace_back(std::move(chunk));
  }
  ready_.notify_one();
}

void EventQueue::on_end(EndEvent event) noexcept {
  {
    const std::lock_guard lock(mutex_);
    end_ = std::move(event);
  }
  ready_.notify_one();
}

// With the lock held and an event there.
Event EventQueue::take() {
  if (chunks_.empty()) return std::move(*std::exchange(end_, std::nullopt));
  Event event = std::move(chunks_.front());
  chunks_.pop_front();
  return event;
}

Event EventQueue::next() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !chunks_.empty() || end_.has_value(); });
  return take();
}

std::optional<Event> EventQueue::poll() {
  const std::lock_guard lock(mutex_);
  if (chunks_.empty() && !end_.has_value()) return std::nullopt;
  return take();
}

}  // namespace ashlar
