// SPDX-License-Identifier: Apache-2.0
#pragma once
// Allocations of the whole program, counted and made to fail, and sinks that count tokens by them.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <future>
#include <string_view>

#include <gtest/gtest.h>

#include "engine/engine.h"

namespace ashlar::testing {

extern std::atomic<int64_t> allocations;
extern std::atomic<int64_t> fail_at;  ///< the allocation with this number throws; -1: none
extern std::atomic<int64_t> fails;    ///< and those after it, this many in all

/// Counts tokens, and remembers how many allocations the process had made when some had arrived.
class CountingSink final : public EventSink {
 public:
  /// The engine waits for `go`, if there is one, at the first token.
  CountingSink(int32_t from, int32_t to, std::shared_future<void> go = {}) : from_(from), to_(to), go_(std::move(go)) {}
  void on_tokens(const TokensEvent& event) override {
    if (tokens == 0 && go_.valid()) go_.wait();
    const int32_t before = tokens;
    for (int32_t i = 0; i < event.n && before + i < kKept; ++i) ids[before + i] = event.tokens[i];
    tokens += event.n;
    if (before < from_ && tokens >= from_) at_start = allocations.load();
    if (before < to_ && tokens >= to_) at_end = allocations.load();
  }
  void on_end(EndEvent event) noexcept override {
    ++ends;
    reason = event.reason;
    has_error = !event.error.empty();
  }
  /// Whether what came is how `answer` begins, and all of it without an error. An empty one becomes what came.
  bool is_of(std::vector<int32_t>& answer) const {
    const auto n = static_cast<size_t>(std::min(tokens, kKept));
    if (answer.empty()) answer.assign(ids, ids + n);
    return n <= answer.size() && std::equal(ids, ids + n, answer.begin()) && (has_error || n == answer.size());
  }
  static constexpr int32_t kKept = 16;
  int32_t ids[kKept] = {};  // the first of them: nothing is allocated here
  int32_t tokens = 0;
  int64_t at_start = -1, at_end = -1;
  int ends = 0;
  FinishReason reason = FinishReason::kStop;
  bool has_error = false;

 private:
  int32_t from_, to_;
  std::shared_future<void> go_;
};

/// Ends the program if a body takes a minute: who waits for an end that was lost waits for ever.
class Alarm {
 public:
  Alarm() {
    std::signal(SIGALRM, [](int) {
      constexpr std::string_view kText = "a failed allocation left somebody waiting for ever\n";
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
      _exit(1);
    });
    alarm(60);
  }
  ~Alarm() { alarm(0); }
};

/// What is allocated in its life, in the body of for_every_allocation, neither fails nor counts as one that might.
class Uncounted {
 public:
  Uncounted() : failing_(fail_at.exchange(-1)), before_(allocations.load()) {}
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
  ~Uncounted() {
    allocations.store(before_);
    fail_at.store(failing_);
  }

 private:
  int64_t failing_, before_;
};

/// The whole life of an engine, with one allocation failing somewhere: each in turn.
template <class Body>
int64_t for_every_allocation(Body body) {
  const int64_t before = allocations.load();
  body();
  const int64_t total = allocations.load() - before;
  for (int64_t n = 0; n < total + 2; ++n) {
    const Alarm alarm;
    fail_at.store(allocations.load() + n);
    body();
    fail_at.store(-1);
    if (::testing::Test::HasFailure()) {
      std::printf("with allocation %lld of %lld failing\n", static_cast<long long>(n), static_cast<long long>(total));
      break;
    }
  }
  return total;
}

}  // namespace ashlar::testing
