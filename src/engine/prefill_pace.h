#pragma once
// How many prompt rows a step may have while other sequences wait in it for their next tokens. A chunk that takes
// milliseconds with a small model holds everybody up for seconds with a large one. Where a prompt is cut changes no
// bit.

#include <algorithm>
#include <cstdint>

namespace ashlar {

class PrefillPace {
 public:
  static constexpr int64_t kGoalNs = 200'000'000;  ///< a step with decoding sequences should take
  static constexpr int32_t kFewestRows = 64;       ///< below, reading the weights once more a chunk costs too much

  /// Takes in a step of `rows` rows, `prompt_rows` of them of prompts, that took `ns`.
  void learn(int32_t rows, int32_t prompt_rows, int64_t ns) {
    constexpr int32_t kTelling = 16;  // of fewer rows a step's time says more about weights than about rows
    constexpr double kRate = 0.25;
    if (prompt_rows < kTelling) return;
    const double one = static_cast<double>(ns) / rows;
    row_ns_ += (row_ns_ > 0 ? kRate : 1.0) * (one - row_ns_);
  }

  /// Prompt rows beside `others`; no bound before anything was seen.
  int32_t most_rows(int32_t others) const {
    if (row_ns_ <= 0) return INT32_MAX;
    const double rows = std::min(static_cast<double>(kGoalNs) / row_ns_, 1e9);
    return std::max(static_cast<int32_t>(rows) - others, kFewestRows);
  }

 private:
  double row_ns_ = 0;
};

}  // namespace ashlar
