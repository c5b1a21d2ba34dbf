// SPDX-License-Identifier: Apache-2.0
#pragma once
// Requests that come twice to one engine, the second time to pages that the first time left, and what drafting made of
// them.

#include <gtest/gtest.h>

#include "equivalence/configurations.h"

namespace ashlar::testing {

class WarmRounds {
 public:
  /// The answers must be `expected` both times. `tight`: pages may be gone by the second time.
  void run(Engine& engine, const std::vector<Request>& requests, const std::vector<std::vector<int32_t>>& expected,
           bool tight) {
    for (int round = 0; round < 2; ++round) {
      const std::vector<Answer> answers = run_together(engine, requests);
      for (size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(answers[i].tokens, expected[i]) << "request " << i << ", round " << round;
        const RequestStats& stats = answers[i].end.stats;
        drafted_ += stats.drafted;
        accepted_ += stats.accepted;
        preemptions_ += stats.preemptions;
        if (round == 0 || tight) continue;
        EXPECT_EQ(stats.cached_tokens, (stats.prompt_tokens - 1) / kPageTokens * kPageTokens);
      }
    }
  }
  /// That the runs were about something: some drafts were accepted and some were not, and some requests preempted.
  void expect_all_kinds() const {
    EXPECT_GT(accepted_, 0);
    EXPECT_GT(drafted_, accepted_);
    EXPECT_GT(preemptions_, 0);
  }

  int64_t drafted() const { return drafted_; }

 private:
  int64_t drafted_ = 0;
  int64_t accepted_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace ashlar::testing
