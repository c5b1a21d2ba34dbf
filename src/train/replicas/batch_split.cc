// SPDX-License-Identifier: Apache-2.0
#include "train/replicas/batch_split.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ashlar {

std::vector<int32_t> split_evenly(std::span<const int64_t> costs, int32_t shares) {
  ASHLAR_CHECK_GE(shares, 1);
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<int64_t> sums(static_cast<size_t>(shares));
  std::vector<int32_t> share_of(costs.size());
  for (const size_t item : order) {
    const auto least = std::min_element(sums.begin(), sums.end());
    *least += costs[item];
    share_of[item] = static_cast<int32_t>(least - sums.begin());
  }
  return share_of;
}

}  // namespace ashlar
