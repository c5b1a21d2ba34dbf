// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many prompt rows a step may have, so that a step stays short whatever the model: a chunk that takes milliseconds
// with a small model takes a minute with a large one. Where a prompt is cut changes no bit.

#include <algorithm>
#include <cstdint>

namespace ashlar {

class PrefillPace {
 public:
  static constexpr int64_t kSharedNs = 200'000'000;  ///< a step should take while other sequences wait for tokens in it
  static constexpr int32_t kMinRows = 16;            ///< the first chunk of all; below, a step mostly reads weights
  /// Where others run, unless they take longer than any step should: below, reading the weights once more a chunk costs
  /// much.
  static constexpr int32_t kMinShared = 64;

  /// `step_ns`: what a step of prompts alone should take, and any step may; 0: no bound.
  explicit PrefillPace(int64_t step_ns) : step_ns_(step_ns) {}

  /// Takes in a step of `rows` rows, `prompt_rows` of them of prompts, that took `ns`.
  void learn(int32_t rows, int32_t prompt_rows, int64_t ns) {
    // Rows get dearer little by little, as prompts get longer. They get cheaper at once, where the next prompt begins;
    // and what a step took too long for a reason of its own is soon forgotten.
    constexpr double kUp = 0.25;
    constexpr double kDown = 0.5;
    if (prompt_rows < kMinRows / 2) return;  // says more about weights than about rows
    const double one = static_cast<double>(ns) / rows;
    row_ns_ += (!learnt_ ? 1.0 : one > row_ns_ ? kUp : kDown) * (one - row_ns_);
    learnt_ = true;
  }

  /// Prompt rows of a step with `others` rows.
  int32_t max_rows(int32_t others) const {
    if (step_ns_ == 0) return INT32_MAX;
    if (!learnt_) return kMinRows;
    int32_t rows = rows_in(step_ns_) - others;
    if (others > 0) rows = std::min(rows, std::max(rows_in(kSharedNs) - others, kMinShared));
    return std::max(rows, kMinRows);
  }

 private:
  int32_t rows_in(int64_t ns) const {
    return static_cast<int32_t>(std::min(static_cast<double>(ns) / std::max(row_ns_, 1.0), 1e9));
  }

  int64_t step_ns_;
  double row_ns_ = 0;
  bool learnt_ = false;
};

}  // namespace ashlar
