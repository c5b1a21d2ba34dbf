// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rows each expert of a mixture gets.

#include <cstdint>
#include <span>
#include <vector>

#include "device/routing.h"

namespace ashlar::cpu {

/// The routed copies of rows ([rows * top_k] of them), sorted by expert, and cut into groups that one kernel call
/// takes. Memory grows with the number of rows only, never with how they are routed.
class ExpertPlan {
 public:
  struct Group {
    int32_t expert = 0;
    int32_t first = 0;  ///< place of its first copy
    int32_t count = 0;  ///< 1 to max_group
  };

  void build(const Routes& routes, int32_t rows, int32_t n_experts, int32_t max_group);

  std::span<const Group> groups() const { return groups_; }
  int32_t copies() const { return copies_; }
  /// The row that the copy at `place` is of.
  int32_t row_of(int32_t place) const { return row_of_[static_cast<size_t>(place)]; }
  /// Where the copy for the row's j-th expert lies: index row * top_k + j.
  int32_t place_of(int64_t index) const { return place_of_[static_cast<size_t>(index)]; }

 private:
  int32_t copies_ = 0;
  std::vector<Group> groups_;
  std::vector<int32_t> row_of_, place_of_;
  std::vector<int32_t> next_;  // per expert: where its next copy goes
};

}  // namespace ashlar::cpu
