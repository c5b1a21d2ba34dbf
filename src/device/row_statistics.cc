// SPDX-License-Identifier: Apache-2.0
#include "device/row_statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/row_math.h"

namespace ashlar {

RowFold::RowFold(const float* logits, int32_t first, int32_t n) {
  const TopTwo top = top_two(logits, n);
  if (top.best < 0) return;
  best_ = first + top.best;
  best_logit_ = logits[top.best];
  if (top.second >= 0) {
    second_ = first + top.second;
    second_logit_ = logits[top.second];
  }
  const ExpMoments moments = exp_moments(logits, n, best_logit_);
  sum_ = moments.sum;
  weighted_ = moments.weighted;
}

RowFold::RowFold(const TileMoments& tile)
    : best_(tile.best),
      second_(tile.second),
      best_logit_(tile.best_logit),
      second_logit_(tile.second_logit),
      sum_(tile.sum),
      weighted_(static_cast<double>(tile.weighted) * std::numbers::ln2) {}

void RowFold::offer(int32_t id, float logit) {
  if (id < 0) return;
  if (second_ < 0 || logit > second_logit_) {
    second_ = id;
    second_logit_ = logit;
  }
}

void RowFold::add(const RowFold& next) {
  if (next.best_ < 0) return;
  if (best_ < 0) {
    *this = next;
    return;
  }
  RowFold low = *this;
  RowFold high = next;
  if (!(high.best_logit_ > low.best_logit_)) std::swap(low, high);
  const double below = static_cast<double>(low.best_logit_) - high.best_logit_;
  const double scale = std::exp(below);
  sum_ = high.sum_ + low.sum_ * scale;
  weighted_ = high.weighted_ + (low.weighted_ + low.sum_ * below) * scale;
  best_ = high.best_;
  best_logit_ = high.best_logit_;
  second_ = high.second_;
  second_logit_ = high.second_logit_;
  // Of equal logits the lower id comes first: that of `this` before that of `next`.
  if (second_ >= 0 && low.best_logit_ == second_logit_ && low.best_ < second_) {
    second_ = low.best_;
  } else {
    offer(low.best_, low.best_logit_);
  }
  offer(low.second_, low.second_logit_);
}

RowStatistics RowFold::finish() const {
  RowStatistics row;
  if (best_ < 0) return row;
  row.best = best_;
  row.second = second_ < 0 ? best_ : second_;
  row.p_best = static_cast<float>(1.0 / sum_);
  if (second_ >= 0)
    row.p_second = static_cast<float>(std::exp(static_cast<double>(second_logit_) - best_logit_) / sum_);
  row.log_sum = static_cast<float>(std::log(sum_) + best_logit_);
  row.entropy = static_cast<float>(std::max(std::log(sum_) - weighted_ / sum_, 0.0));
  return row;
}

RowStatistics row_statistics(const float* logits, int32_t n) {
  RowFold fold;
  for (int32_t first = 0; first < n; first += RowFold::kTile) {
    fold.add(RowFold(logits + first, first, std::min(RowFold::kTile, n - first)));
  }
  return fold.finish();
}

}  // namespace ashlar
