// SPDX-License-Identifier: Apache-2.0
#include "measure/completion.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace ashlar {
namespace {

// What the sinks of one call share.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t ended = 0;
};

class Collector final : public EventSink {
 public:
  explicit Collector(std::shared_ptr<Board> board) : board_(std::move(board)) {}

  void on_tokens(const TokensEvent& event) override {
    result.tokens.insert(result.tokens.end(), event.tokens, event.tokens + event.n);
  }
  void on_prompt(const PromptEvent& event) override {
    result.prompt.insert(result.prompt.end(), event.tokens, event.tokens + event.n);
  }
  void on_end(EndEvent event) noexcept override {
    result.reason = event.reason;
    result.stats = std::move(event.stats);
    error = std::move(event.error);
    {
      const std::lock_guard lock(board_->mutex);
      ++board_->ended;
    }
    board_->changed.notify_one();
  }

  Completion result;  // written by the engine's thread until the end is counted
  std::string error;

 private:
  std::shared_ptr<Board> board_;  // outlives the call if that throws
};

}  // namespace

std::vector<Completion> complete(Engine& engine, std::vector<Request> requests, int32_t batch,
                                 const OnCompleted& on_completed) {
  const auto board = std::make_shared<Board>();
  const auto total = static_cast<int64_t>(requests.size());
  std::vector<std::shared_ptr<Collector>> collectors;
  const auto wait_for = [&](int64_t wanted) {
    std::unique_lock lock(board->mutex);
    while (board->ended < wanted) {
      board->changed.wait(lock);
      const int64_t ended = board->ended;
      lock.unlock();
      if (on_completed) on_completed(ended);
      lock.lock();
    }
  };
  for (int64_t i = 0; i < total; ++i) {
    wait_for(i + 1 - batch);
    collectors.push_back(std::make_shared<Collector>(board));
    requests[i].sink = collectors.back();
    if (const auto id = engine.submit(std::move(requests[i])); !id) {
      throw Error("measure", "request " + std::to_string(i + 1) + " was refused: " + id.error());
    }
  }
  wait_for(total);
  std::vector<Completion> results;
  for (int64_t i = 0; i < total; ++i) {
    if (collectors[i]->result.reason == FinishReason::kError) {
      throw Error("measure", "request " + std::to_string(i + 1) + " failed: " + collectors[i]->error);
    }
    results.push_back(std::move(collectors[i]->result));
  }
  return results;
}

}  // namespace ashlar
