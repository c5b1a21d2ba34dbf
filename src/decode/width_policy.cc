#include "decode/width_policy.h"

#include <algorithm>
#include <utility>

namespace ashlar {
namespace {

constexpr double kFirstGuess = 0.7;  // chance of each draft, given the ones before, before anything was seen
constexpr double kSlotRate = 0.2;    // a sequence's estimate forgets over about five passes
constexpr double kPriorRate = 0.02;  // the common estimate over about fifty
constexpr double kMostOptimistic = 0.97;
constexpr double kGoodChance = 0.9;
constexpr double kWorthwhile = 1.03;  // gain below which plain passes are preferred: drafts cost more than is modelled
constexpr double kProbeShare = 0.01;  // of the time of plain passes, spent on trying drafts again
constexpr int32_t kProbeWidth = 4;
constexpr double kRatioRate = 0.05;        // a step's share in what is known of ratios: about twenty steps
constexpr double kForgiveness = 1.0 / 16;  // a plain pass moves a sequence's estimate this far towards the common one

}  // namespace

void RowCost::add(int32_t rows, double time) {
  for (Point& point : points_) point.time = std::min(point.time, time);
  points_.push_back({static_cast<double>(rows), time});
}

double RowCost::at(double rows) const {
  if (points_.size() == 1) return points_[0].time;
  size_t i = 1;
  while (i + 1 < points_.size() && points_[i].rows < rows) ++i;
  const Point& a = points_[i - 1];
  const Point& b = points_[i];
  return a.time + (b.time - a.time) * (rows - a.rows) / (b.rows - a.rows);
}

WidthPolicy::WidthPolicy(int32_t max_width, int32_t max_slots) : max_width_(max_width), slots_(max_slots) {
  double chance = 1.0;
  for (double& survival : prior_.survival) {
    survival = chance;
    chance *= kFirstGuess;
  }
  for (Estimate& slot : slots_) slot = prior_;
}

void WidthPolicy::set_costs(RowCost verify, RowCost draft) {
  verify_ = std::move(verify);
  draft_ = std::move(draft);
}

void WidthPolicy::admit(int32_t slot) { slots_[slot] = prior_; }

double WidthPolicy::rate(int32_t width, double expected) const {
  const double rows = static_cast<double>(width) * n_;
  if (width == 1) return expected / verify_.at(rows);
  return expected / ((verify_.at(rows) + draft_.at(rows)) * drafting_ratio_ / plain_ratio_);
}

void WidthPolicy::observe_step(int32_t rows, int32_t drafted_rows, double time) {
  if (verify_.empty() || rows == 0) return;
  const double predicted = verify_.at(rows) + (drafted_rows > 0 ? draft_.at(drafted_rows) : 0.0);
  // A step that lost its core to something else says nothing.
  const double ratio = std::clamp(time / predicted, 0.5, 3.0);
  double& known = drafted_rows > 0 ? drafting_ratio_ : plain_ratio_;
  known += kRatioRate * (ratio - known);
}

bool WidthPolicy::good_drafts_would_pay() const {
  double expected = 1.0;
  double chance = 1.0;
  for (int32_t width = 2; width <= max_width_; ++width) {
    chance *= kGoodChance;
    expected += chance;
    if (rate(width, expected) > kWorthwhile * rate(1, 1.0)) return true;
  }
  return false;
}

void WidthPolicy::begin_step(int32_t n) {
  if (verify_.empty() || n == 0) return;
  n_ = n;
  hopeless_steps_ = good_drafts_would_pay() ? 0 : std::min(hopeless_steps_ + 1, kGiveUpAfter);
  probe_credit_ += kProbeShare * verify_.at(n);
}

int32_t WidthPolicy::choose(int32_t slot) {
  if (verify_.empty()) return max_width_;
  Estimate& estimate = slots_[slot];
  double expected = 1.0;
  double best_rate = kWorthwhile * rate(1, expected);
  int32_t best = 1;
  for (int32_t width = 2; width <= max_width_; ++width) {
    expected += estimate.survival[width - 1];
    const double found = rate(width, expected);
    if (found > best_rate) {
      best_rate = found;
      best = width;
    }
  }
  if (best > 1 || hopeless_steps_ > 0) return best;
  // Perhaps it was bad luck: of a run of refused drafts, or of one passage.
  for (int32_t k = 1; k < max_width_; ++k)
    estimate.survival[k] += kForgiveness * (prior_.survival[k] - estimate.survival[k]);
  const int32_t probe = std::min(kProbeWidth, max_width_);
  const double price = verify_.at(n_ + probe - 1) - verify_.at(n_) + draft_.at(probe);
  if (probe_credit_ < price) return 1;
  probe_credit_ = 0;
  return probe;
}

// Positions that were judged move towards what happened; those beyond continue the last ratio.
void WidthPolicy::learn(Estimate& estimate, int32_t drafted, int32_t accepted, double rate) const {
  auto& survival = estimate.survival;
  for (int32_t k = 1; k <= drafted; ++k) survival[k] += rate * ((accepted >= k ? 1.0 : 0.0) - survival[k]);
  const double ratio = std::min(survival[drafted] / std::max(survival[drafted - 1], 1e-6), kMostOptimistic);
  for (int32_t k = drafted + 1; k < max_width_; ++k) survival[k] = survival[k - 1] * ratio;
}

void WidthPolicy::observe(int32_t slot, int32_t drafted, int32_t accepted) {
  if (drafted == 0) return;
  learn(slots_[slot], drafted, accepted, kSlotRate);
  learn(prior_, drafted, accepted, kPriorRate);
}

}  // namespace ashlar
