// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sink that another thread reads at its own pace.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <variant>

#include "engine/request.h"

namespace ashlar {

/// Copies of TokensEvent for a reader on another thread.
struct TokenChunk {
  std::vector<int32_t> tokens;
  int32_t n_drafted = 0;
  std::vector<TokenLogprobs> logprobs;  // as many as tokens, or none
  std::vector<int16_t> unmask_pass;     // as many as tokens, or none
  int32_t at = 0;                       // then: where in their block the first one stands

  TokenChunk() = default;
  explicit TokenChunk(const TokensEvent& event);
};

/// Copies of PromptEvent, which not every sink keeps.
struct PromptChunk {
  int32_t first = 0;
  std::vector<PromptToken> tokens;

  explicit PromptChunk(const PromptEvent& event) : first(event.first), tokens(event.tokens, event.tokens + event.n) {}
};

using Event = std::variant<TokenChunk, PromptChunk, EndEvent>;

/// Bounded by the request's own max_tokens: a request cannot put more into it than it may generate.
class EventQueue final : public EventSink {
 public:
  void on_tokens(const TokensEvent& event) override;
  void on_end(EndEvent event) noexcept override;

  /// Waits for the next event. After the EndEvent nothing follows, and a further call is a mistake of the caller.
  Event next();
  /// The next event if one is there.
  std::optional<Event> poll();

 private:
  Event take();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<TokenChunk> chunks_;
  std::optional<EndEvent> end_;  // has its place from the start: telling the end must not need memory
};

}  // namespace ashlar
