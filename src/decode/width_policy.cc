#include "decode/width_policy.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace ashlar {
namespace {

constexpr double kFirstGuess = 0.7;  // chance of each draft, given the ones before, before anything was seen
constexpr double kSlotRate = 0.2;    // a sequence's estimate forgets over about five passes
constexpr double kPriorRate = 0.02;  // the common estimate over about fifty
constexpr double kMostOptimistic = 0.97;
constexpr double kBetterHalf = 0.5;   // drafts better than most so far: as far from the common chance to certainty
constexpr double kWorthwhile = 1.03;  // gain below which plain passes are preferred: drafts cost more than is modelled
constexpr double kWorthKeeping = 1.15;  // gain for which a drafter is kept informed that nobody uses
constexpr double kProbeShare = 0.005;   // of the time of plain passes, spent on trying drafts again
constexpr int32_t kProbeWidth = 4;
constexpr double kExcessRate = 0.05;   // a step's share in what is known of its like: about twenty steps
constexpr int32_t kSettled = 8;        // steps without drafts until caches hold what such steps read
constexpr double kLeastSettled = 0.5;  // share that a calibration may claim for them: it lasts milliseconds
constexpr int32_t kTrialSteps = 2 * kSettled;
constexpr int32_t kRarestTrial = 4096;  // steps with drafts from one trial to the next: 0.4 % of them are tried without
constexpr double kLeastShare = 0.25;    // of its cost that a pass may take
constexpr double kMostShare = 3.0;      // a pass that lost its core to something else says nothing
constexpr double kLeastChance = 0.02;   // of drafts worth a thought
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
  drafts_.reserve(static_cast<size_t>(max_slots) * max_width);
}

void WidthPolicy::set_costs(RowCost verify, RowCost draft, double settled) {
  verify_ = std::move(verify);
  draft_ = std::move(draft);
  settled_ = std::clamp(settled, kLeastSettled, 1.0);
  settled_excess_.share.fill(settled_);
}

WidthPolicy::Estimate& WidthPolicy::estimate_of(int32_t slot) {
  Estimate& estimate = slots_[slot];
  if (estimate.admitted) {
    estimate = prior_;
    estimate.admitted = false;
    estimate.is_new = true;
  }
  return estimate;
}

size_t WidthPolicy::size_class(int32_t n) {
  return std::min<size_t>(std::bit_width(static_cast<uint32_t>(n - 1)), kSizes - 1);
}

// A crowd in which nobody drafted yet is judged by its passes without drafts.
double WidthPolicy::time(int32_t n, double rows, double drafted_rows) const {
  const bool only_plain = !verify_excess_.knows(n) && settled_excess_.knows(n);
  return (only_plain ? settled_excess_ : verify_excess_).of(n, verify_.at(rows)) +
         draft_excess_.of(n, draft_.at(drafted_rows));
}

double WidthPolicy::plain_time(int32_t n) const {
  if (!settled_excess_.knows(n) && verify_excess_.knows(n)) return settled_ * verify_excess_.of(n, verify_.at(n));
  return settled_excess_.of(n, verify_.at(n));
}

void WidthPolicy::Excess::learn(int32_t n, double cost, double measured) {
  measured = std::clamp(measured, kLeastShare * cost, kMostShare * cost);
  const size_t own = size_class(n);
  const double rate = std::max(kExcessRate, 1.0 / (1.0 + seen[own]));
  if (seen[own] < INT32_MAX) ++seen[own];
  for (size_t size = 0; size < kSizes; ++size) {
    if (size != own && seen[size] > 0) continue;
    time[size] += rate * (std::max(measured - cost, 0.0) - time[size]);
    share[size] += rate * (std::min(measured / cost, 1.0) - share[size]);
  }
}

double WidthPolicy::Excess::of(int32_t n, double cost) const {
  return cost * share[size_class(n)] + time[size_class(n)];
}

// Passes with and without drafts are held against the same costs, so that what many sequences or long contexts add to
// both is never taken for the price of drafts.
void WidthPolicy::observe_step(int32_t n, int32_t rows, int32_t drafted_rows, double verify, double draft) {
  if (verify_.empty() || n == 0) return;
  plain_steps_ = drafted_rows > 0 ? 0 : std::min(plain_steps_ + 1, kSettled + 1);
  Excess& excess = plain_steps_ > kSettled ? settled_excess_ : verify_excess_;
  excess.learn(n, verify_.at(rows), verify);
  if (drafted_rows > 0) draft_excess_.learn(n, draft_.at(drafted_rows), draft);
}

bool WidthPolicy::good_drafts_would_pay(int32_t n) const {
  const double common = prior_.survival[1];
  const double good = common + kBetterHalf * (1.0 - common);
  double expected = 1.0;
  double chance = 1.0;
  for (int32_t width = 2; width <= max_width_; ++width) {
    chance *= good;
    expected += chance;
    const double rows = static_cast<double>(width) * n;
    if (expected / time(n, rows, rows) > kWorthKeeping / plain_time(n)) return true;
  }
  return false;
}

void WidthPolicy::choose(std::span<WidthChoice> sequences) {
  for (WidthChoice& sequence : sequences) sequence.width = std::min(sequence.width, max_width_);
  if (verify_.empty() || sequences.empty()) return;
  const auto n = static_cast<int32_t>(sequences.size());
  hopeless_steps_ = good_drafts_would_pay(n) ? 0 : std::min(hopeless_steps_ + 1, kGiveUpAfter);
  probe_credit_ += kProbeShare * plain_time(n);
  if (trial_steps_ > 0) {
    --trial_steps_;
    for (WidthChoice& sequence : sequences) sequence.width = 1;
    return;
  }
  Trial& trial = trials_[size_class(n)];
  if (!choose_best(sequences) || --trial.left > 0) return;
  trial_steps_ = kTrialSteps;
  trial.left = trial.interval = std::min(2 * trial.interval, kRarestTrial);
}

// Of all drafts that may be verified the likeliest go first: m of them cost what m rows cost, whoever's they are. A
// sequence that drafts at all also has a row for its anchor in the drafter's pass.
bool WidthPolicy::choose_best(std::span<WidthChoice> sequences) {
  drafts_.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Estimate& estimate = estimate_of(sequences[i].slot);
    for (int32_t k = 1; k < sequences[i].width && estimate.survival[k] > kLeastChance; ++k) {
      drafts_.push_back({estimate.survival[k], static_cast<int32_t>(i), k});
    }
  }
  std::sort(drafts_.begin(), drafts_.end(), [](const Draft& a, const Draft& b) {
    return std::tie(b.chance, a.index, a.sequence) < std::tie(a.chance, b.index, b.sequence);
  });
  const auto n = static_cast<int32_t>(sequences.size());
  double tokens = n;
  double best_rate = kWorthwhile * n / plain_time(n);
  double anchors = 0;
  size_t best = 0;
  for (size_t m = 1; m <= drafts_.size(); ++m) {
    tokens += drafts_[m - 1].chance;
    if (drafts_[m - 1].index == 1) ++anchors;
    const auto added = static_cast<double>(m);
    const double rate = tokens / time(n, n + added, anchors + added);
    if (rate > best_rate) {
      best_rate = rate;
      best = m;
    }
  }
  for (size_t m = 0; m < best; ++m) slots_[sequences[drafts_[m].sequence].slot].drafts = drafts_[m].index;
  for (WidthChoice& sequence : sequences) {
    Estimate& estimate = slots_[sequence.slot];
    const int32_t drafts = std::exchange(estimate.drafts, 0);
    const bool is_new = std::exchange(estimate.is_new, false);
    if (drafts > 0 || sequence.width < 2) {
      sequence.width = 1 + drafts;
    } else {
      sequence.width = try_again(estimate, is_new, sequence.width, n);
    }
  }
  return best > 0;
}

// The width of a sequence none of whose drafts seems to pay.
int32_t WidthPolicy::try_again(Estimate& estimate, bool is_new, int32_t most, int32_t n) {
  // Without hope only new sequences are tried, whose drafter has seen the whole prompt: should the texts have become
  // others, the common estimate learns of it.
  if (hopeless_steps_ > 0 && !is_new) return 1;
  // Perhaps it was bad luck: of a run of refused drafts, or of one passage.
  for (int32_t k = 1; k < max_width_; ++k)
    estimate.survival[k] += kForgiveness * (prior_.survival[k] - estimate.survival[k]);
  const int32_t probe = std::min(kProbeWidth, most);
  const double unsettled = std::max(verify_excess_.of(n, verify_.at(n)) - plain_time(n), 0.0);
  const double price = verify_.at(n + probe - 1) - verify_.at(n) + draft_.at(probe) + kSettled * unsettled;
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
  learn(estimate_of(slot), drafted, accepted, kSlotRate);
  learn(prior_, drafted, accepted, kPriorRate);
}

}  // namespace ashlar
