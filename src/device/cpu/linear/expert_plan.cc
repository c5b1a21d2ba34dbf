// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/linear/expert_plan.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar::cpu {

void ExpertPlan::build(const Routes& routes, int32_t rows, int32_t n_experts, int32_t max_group) {
  copies_ = rows * routes.top_k;
  const auto copies = static_cast<size_t>(copies_);
  if (place_of_.size() < copies) {
    row_of_.resize(copies);
    place_of_.resize(copies);
  }
  groups_.clear();
  groups_.reserve(static_cast<size_t>(std::min(n_experts, copies_) + copies_ / max_group));
  next_.assign(static_cast<size_t>(n_experts), 0);
  for (int32_t i = 0; i < copies_; ++i) {
    ASHLAR_CHECK(routes.experts[i] >= 0 && routes.experts[i] < n_experts);
    ++next_[static_cast<size_t>(routes.experts[i])];
  }
  int32_t place = 0;
  for (int32_t expert = 0; expert < n_experts; ++expert) {
    int32_t& next = next_[static_cast<size_t>(expert)];
    const int32_t end = place + next;
    next = place;
    for (; place < end; place += groups_.back().count) {
      groups_.push_back({expert, place, std::min(max_group, end - place)});
    }
  }
  for (int32_t i = 0; i < copies_; ++i) {
    place = next_[static_cast<size_t>(routes.experts[i])]++;
    row_of_[static_cast<size_t>(place)] = i / routes.top_k;
    place_of_[static_cast<size_t>(i)] = place;
  }
}

}  // namespace ashlar::cpu
