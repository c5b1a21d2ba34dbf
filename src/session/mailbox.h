// SPDX-License-Identifier: Apache-2.0
#pragma once
// Events of many answers in one queue, put in by the engine's thread and followed by one reader's. It outlives both.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/event_queue.h"

namespace ashlar {

class Mailbox {
 public:
  struct Item {
    size_t answer;
    Event event;
  };

  /// `notify` is called on the engine's thread whenever something came; what it throws is no business of that thread.
  explicit Mailbox(std::function<void()> notify = {}) : notify_(std::move(notify)) {}

  /// Takes the items of a list, so that nothing is allocated here: ends come in lists made with their sinks.
  void put(std::list<Item>& items) noexcept {
    {
      const std::lock_guard lock(mutex_);
      items_.splice(items_.end(), items);
    }
    ready_.notify_one();
    try {
      if (notify_) notify_();
    } catch (...) {
    }
  }

  /// Everything that has come, of each answer in its order; waits for something, at most `timeout`. `out` is empty.
  void take(std::list<Item>& out, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [this] { return !items_.empty(); });
    out.swap(items_);
  }

 private:
  const std::function<void()> notify_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::list<Item> items_;
};

/// The sink of one answer.
class MailboxSink final : public EventSink {
 public:
  MailboxSink(std::shared_ptr<Mailbox> mailbox, size_t answer)
      : mailbox_(std::move(mailbox)), answer_(answer), end_{{answer, EndEvent()}} {}

  void on_tokens(const TokensEvent& event) override {
    std::list<Mailbox::Item> items;
    items.push_back({answer_, TokenChunk(event)});
    mailbox_->put(items);
  }
  void on_end(EndEvent event) noexcept override {
    std::get<EndEvent>(end_.front().event) = std::move(event);
    mailbox_->put(end_);
  }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  size_t answer_;
  std::list<Mailbox::Item> end_;  // one item, the mailbox's once it is filled
};

}  // namespace ashlar
