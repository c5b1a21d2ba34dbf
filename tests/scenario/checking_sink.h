// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sink for engines on a fake decoder.

#include <gtest/gtest.h>

#include "engine/engine.h"

namespace ashlar::testing {

/// Counts events and checks their order.
class CheckingSink final : public EventSink {
 public:
  void on_tokens(const TokensEvent& event) override {
    EXPECT_EQ(ends, 0) << "tokens after the end";
    tokens.insert(tokens.end(), event.tokens, event.tokens + event.n);
    EXPECT_LT(event.n_drafted, event.n);
  }
  void on_end(EndEvent event) noexcept override {
    ++ends;
    end = std::move(event);
    done.store(true);
    done.notify_all();
  }
  void await() const { done.wait(false); }
  std::vector<int32_t> tokens;
  int ends = 0;
  EndEvent end;
  std::atomic<bool> done = false;
};

}  // namespace ashlar::testing
