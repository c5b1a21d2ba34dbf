#pragma once
// Events of all answers of a run, put in by the engine's thread and taken out by the reader's. It outlives both.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/event_queue.h"

namespace ashlar {

class Mailbox {
 public:
  struct News {
    std::deque<std::pair<size_t, TokenChunk>> chunks;
    std::vector<std::pair<size_t, EndEvent>> ends;  // after all chunks of the same answer
    bool empty() const { return chunks.empty() && ends.empty(); }
  };

  Mailbox(size_t n_answers, std::function<void()> notify) : notify_(std::move(notify)) {
    news_.ends.reserve(n_answers);  // reporting an end must not need memory
  }

  void put(size_t answer, TokenChunk chunk) {
    {
      const std::lock_guard lock(mutex_);
      news_.chunks.emplace_back(answer, std::move(chunk));
    }
    ring();
  }
  void end(size_t answer, EndEvent event) noexcept {
    {
      const std::lock_guard lock(mutex_);
      news_.ends.emplace_back(answer, std::move(event));
    }
    ring();
  }
  void take(News& out, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [this] { return !news_.empty(); });
    out.chunks.swap(news_.chunks);
    out.ends.assign(std::make_move_iterator(news_.ends.begin()), std::make_move_iterator(news_.ends.end()));
    news_.ends.clear();
  }

 private:
  // An exception of what a user asked to be called is no business of the engine's thread.
  void ring() noexcept {
    ready_.notify_one();
    try {
      if (notify_) notify_();
    } catch (...) {
    }
  }

  const std::function<void()> notify_;
  std::mutex mutex_;
  std::condition_variable ready_;
  News news_;
};

/// The sink of one answer of a run.
class MailboxSink final : public EventSink {
 public:
  MailboxSink(std::shared_ptr<Mailbox> mailbox, size_t answer) : mailbox_(std::move(mailbox)), answer_(answer) {}
  void on_tokens(const TokensEvent& event) override { mailbox_->put(answer_, TokenChunk(event)); }
  void on_end(EndEvent event) noexcept override { mailbox_->end(answer_, std::move(event)); }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  size_t answer_;
};

}  // namespace ashlar
