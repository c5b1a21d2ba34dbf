#include "decode/policy/width_policy.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace ashlar {
namespace {

constexpr double kFirstGuess = 0.7;   // chance of each draft, given the ones before, before anything was seen
constexpr double kSlotRate = 0.05;    // a sequence's estimate forgets over about twenty passes: fewer say little
constexpr double kPriorRate = 0.005;  // the common estimate over about two hundred
constexpr double kGuessedPasses = 8;  // what the first guess counts for in it
constexpr double kMaxOptimistic = 0.97;
constexpr double kBetterHalf = 0.5;   // drafts better than most so far: as far from the common chance to certainty
constexpr double kWorthwhile = 1.03;  // gain below which plain passes are preferred: drafts cost more than is modelled
constexpr double kWorthKeeping = 1.15;  // gain for which a drafter is kept informed that nobody uses
constexpr double kProbeShare = 0.005;   // of the time of plain passes, spent on trying drafts again
constexpr int32_t kProbeWidth = 4;
constexpr double kExcessRate = 0.05;  // a step's share in what is known of its like: about twenty steps
constexpr double kPaceRate = 0.05;    // what time is worth in the long run, not in a step of many tokens
constexpr double kFewPasses = 16;     // of a width, before half of what is believed of it is its own
constexpr int32_t kSettled = 8;       // steps without drafts until caches hold what such steps read
constexpr double kMinSettled = 0.5;   // share that a calibration may claim for them: it lasts milliseconds
constexpr int32_t kTrialSteps = 2 * kSettled;
constexpr int32_t kRarestTrial = 4096;  // steps with drafts from one trial to the next: 0.4 % of them are tried without
constexpr double kMinShare = 0.25;      // of its cost that a pass may take
constexpr double kMaxShare = 3.0;       // and at most
constexpr double kMaxSurprise = 1.1;    // times what is believed: neighbours come for twenty passes and go again
constexpr double kMinChance = 0.02;     // of drafts worth a thought
constexpr double kWorthOfWholeBlocks = 0.03;  // more tokens from drafters that see all of their block
constexpr double kMinTrust = 0.25;            // times a proposer's chances, what is believed of them
constexpr double kMaxTrust = 1.5;
constexpr double kForgiveness = 1.0 / 16;  // a plain pass moves a sequence's estimate this far towards the common one

double trust_of(double accepted, double expected) {
  return expected > 0 ? std::clamp(accepted / expected, kMinTrust, kMaxTrust) : 1.0;
}

// What is believed moves a little with every pass, however far off that was: a middle rather than a mean.
double tempered(double measured, double believed, int32_t passes) {
  return passes < kFewPasses ? measured : std::clamp(measured, believed / kMaxSurprise, believed * kMaxSurprise);
}

}  // namespace

void RowCost::add(int32_t rows, double time) {
  for (Point& point : points_) point.time = std::min(point.time, time);
  points_.push_back({static_cast<double>(rows), time});
  for (size_t whole = 0; whole < table_.size(); ++whole) table_[whole] = between_points(static_cast<double>(whole));
}

double RowCost::at(double rows) const {
  const auto whole = static_cast<size_t>(rows);
  return whole < table_.size() && static_cast<double>(whole) == rows ? table_[whole] : between_points(rows);
}

double RowCost::between_points(double rows) const {
  if (points_.size() == 1) return points_[0].time;
  size_t i = 1;
  while (i + 1 < points_.size() && points_[i].rows < rows) ++i;
  const Point& a = points_[i - 1];
  const Point& b = points_[i];
  return a.time + (b.time - a.time) * (rows - a.rows) / (b.rows - a.rows);
}

WidthPolicy::WidthPolicy(int32_t max_width, int32_t max_slots, bool proposes)
    : max_width_(max_width), proposes_(proposes), slots_(max_slots) {
  double chance = 1.0;
  for (size_t k = 0; k < prior_.survival.size(); ++k) {
    prior_.survival[k] = prior_.chance[k] = chance;
    chance *= kFirstGuess;
  }
  drafts_.reserve(static_cast<size_t>(max_slots) * max_width);
}

void WidthPolicy::set_costs(RowCost verify, RowCost draft, double settled) {
  verify_ = std::move(verify);
  draft_ = std::move(draft);
  settled_ = std::clamp(settled, kMinSettled, 1.0);
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

size_t WidthPolicy::row_class(double rows) {
  const auto whole = static_cast<uint32_t>(std::max(rows, 1.0));
  if (whole <= 16) return whole - 1;
  return std::min<size_t>(static_cast<size_t>(std::bit_width(whole - 1)) + 11, kRowClasses - 1);
}

// Where no sequence of a batch has drafted yet, it is measured by its passes without drafts.
double WidthPolicy::verify_time(int32_t n, double rows) const {
  const bool only_plain = !verify_excess_.knows(n) && settled_excess_.knows(n);
  return (only_plain ? settled_excess_ : verify_excess_).of(n, rows, verify_);
}

// Without the proposer's pass caches hold what they held after the last step.
double WidthPolicy::time(int32_t n, double rows, double drafted_rows) const {
  if (drafted_rows > 0) return verify_time(n, rows) + draft_excess_.of(n, drafted_rows, draft_);
  return steps_without_ > kSettled ? settled_excess_.of(n, rows, verify_) : verify_time(n, rows);
}

double WidthPolicy::plain_time(int32_t n) const {
  const Excess& known = !settled_excess_.knows(n) && verify_excess_.knows(n) ? verify_excess_ : settled_excess_;
  // By rows: wide passes with drafts at hand are among those that are known.
  return (&known == &verify_excess_ ? settled_ : 1.0) * known.of(n, n, verify_);
}

void WidthPolicy::Excess::learn(int32_t n, double rows, double cost, double measured) {
  measured = std::clamp(measured, kMinShare * cost, kMaxShare * cost);
  const size_t own = size_class(n);
  const auto rate_of = [](int32_t& passes) {
    const double rate = std::max(kExcessRate, 1.0 / (1.0 + passes));
    if (passes < INT32_MAX) ++passes;
    return rate;
  };
  const double whole = tempered(measured, on_the_whole(n, cost), seen[own]);
  const double rate = rate_of(seen[own]);
  for (size_t size = 0; size < kSizes; ++size) {
    if (size != own && seen[size] > 0) continue;
    time[size] += rate * (std::max(whole - cost, 0.0) - time[size]);
    share[size] += rate * (std::min(whole / cost, 1.0) - share[size]);
  }
  const size_t width = row_class(rows);
  double& of_rows = ratio[own][width];
  const double ratio_now = tempered(measured / cost, of_rows, seen_rows[own][width]);
  of_rows += rate_of(seen_rows[own][width]) * (ratio_now - of_rows);
}

double WidthPolicy::Excess::on_the_whole(int32_t n, double cost) const {
  return cost * share[size_class(n)] + time[size_class(n)];
}

// Nothing here may favour one side: a bound from below by what fewer rows took, right as it sounds, is the largest of
// many noisy figures, and on a busy machine made passes with drafts a tenth dearer than they are.
double WidthPolicy::Excess::of(int32_t n, double rows, const RowCost& costs) const {
  const auto& ratios = ratio[size_class(n)];
  const auto& passes = seen_rows[size_class(n)];
  const size_t own = row_class(rows);
  const double all = on_the_whole(n, costs.at(rows));
  const double belief = passes[own] / (passes[own] + kFewPasses);
  return all + belief * (costs.at(rows) * ratios[own] - all);
}

// Passes with and without drafts are held against the same costs, so that what many sequences or long contexts add to
// both is never taken for the price of drafts.
void WidthPolicy::observe_step(int32_t n, int32_t rows, int32_t drafted_rows, double verify, double draft) {
  if (verify_.empty() || n == 0) return;
  steps_without_ = drafted_rows > 0 ? 0 : std::min(steps_without_ + 1, kSettled + 1);
  (steps_without_ > kSettled ? settled_excess_ : verify_excess_).learn(n, rows, verify_.at(rows), verify);
  if (drafted_rows > 0) draft_excess_.learn(n, drafted_rows, draft_.at(drafted_rows), draft);
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

bool WidthPolicy::choose(std::span<WidthChoice> sequences) {
  for (WidthChoice& sequence : sequences) {
    sequence.most = sequence.width = std::min(sequence.width, max_width_);
    if (proposes_) continue;
    sequence.width = std::min(sequence.width, static_cast<int32_t>(sequence.at_hand.size()) + 1);
    sequence.takes_at_hand = sequence.width > 1;
  }
  if (verify_.empty() || sequences.empty()) return false;
  if (!proposes_) {
    choose_best(sequences);
    return false;
  }
  const auto n = static_cast<int32_t>(sequences.size());
  hopeless_steps_ = good_drafts_would_pay(n) ? 0 : std::min(hopeless_steps_ + 1, kGiveUpAfter);
  probe_credit_ += kProbeShare * plain_time(n);
  if (trial_steps_ > 0) {
    --trial_steps_;
    for (WidthChoice& sequence : sequences) sequence.width = 1;
    return false;
  }
  Trial& trial = trials_[size_class(n)];
  if (choose_best(sequences) && --trial.left <= 0) {
    trial_steps_ = kTrialSteps;
    trial.left = trial.interval = std::min(2 * trial.interval, kRarestTrial);
  }
  return whole_blocks_are_cheap(sequences);
}

bool WidthPolicy::whole_blocks_are_cheap(std::span<const WidthChoice> sequences) const {
  const auto n = static_cast<int32_t>(sequences.size());
  double rows = 0;
  double drafted = 0;
  double whole = 0;
  for (const WidthChoice& sequence : sequences) {
    const bool proposes = sequence.width > 1 && !sequence.takes_at_hand;
    rows += sequence.width;
    drafted += proposes ? sequence.width : 0;
    whole += proposes ? sequence.most : 0;
  }
  return whole > drafted && draft_.at(whole) - draft_.at(drafted) < kWorthOfWholeBlocks * time(n, rows, drafted);
}

void WidthPolicy::sort_drafts() {
  std::sort(drafts_.begin(), drafts_.end(), [](const Draft& a, const Draft& b) {
    return std::tie(b.chance, a.index, a.sequence) < std::tie(a.chance, b.index, b.sequence);
  });
}

// Which drafts yield more at the pace of tokens, if all sequences of the step drafted as this one does.
bool WidthPolicy::prefers_at_hand(const WidthChoice& sequence, const Estimate& estimate, int32_t n) const {
  if (sequence.at_hand.empty()) return false;
  const double last = paces_[size_class(n)];
  const double pace = last > 0 ? last : n / plain_time(n);
  const double plain = time(n, n, 0);
  const auto profit = [&](bool proposes) {
    const int32_t most =
        proposes ? sequence.width - 1 : std::min(sequence.width - 1, static_cast<int32_t>(sequence.at_hand.size()));
    double best = 0;
    double tokens = 0;
    for (int32_t k = 1; k <= most; ++k) {
      const double chance = proposes ? estimate.survival[k] : sequence.at_hand[static_cast<size_t>(k) - 1];
      if (chance <= kMinChance) break;
      tokens += n * chance;
      const double rows = n * (k + 1.0);
      best = std::max(best, tokens - pace * (time(n, rows, proposes ? rows : 0) - plain));
    }
    return best;
  };
  return profit(false) > profit(true);
}

// Lists the drafts that may be verified, the likeliest first; without the proposer those at hand alone.
void WidthPolicy::list_drafts(std::span<WidthChoice> sequences, bool proposes) {
  drafts_.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    WidthChoice& sequence = sequences[i];
    const Estimate& estimate = slots_[sequence.slot];
    const std::span<const float> at_hand = sequence.at_hand;
    sequence.takes_at_hand =
        proposes ? prefers_at_hand(sequence, estimate, static_cast<int32_t>(sequences.size())) : !at_hand.empty();
    if (!proposes && at_hand.empty()) continue;
    const int32_t end =
        sequence.takes_at_hand ? std::min(sequence.width, static_cast<int32_t>(at_hand.size()) + 1) : sequence.width;
    for (int32_t k = 1; k < end; ++k) {
      const double chance = sequence.takes_at_hand ? at_hand[static_cast<size_t>(k) - 1] : estimate.survival[k];
      if (chance <= kMinChance) break;
      drafts_.push_back({chance, static_cast<int32_t>(i), k});
    }
  }
  sort_drafts();
}

// How many of the drafts yield most tokens for their time, if that is more than `rate`: m of them cost what m rows
// cost, of any sequences. A sequence that has drafts proposed has a row for its last token in the drafter's pass too.
size_t WidthPolicy::best_number(std::span<const WidthChoice> sequences, double& rate) const {
  const auto n = static_cast<int32_t>(sequences.size());
  double tokens = n;
  double drafted = 0;
  size_t best = 0;
  for (size_t m = 1; m <= drafts_.size(); ++m) {
    const Draft& draft = drafts_[m - 1];
    tokens += draft.chance;
    if (!sequences[static_cast<size_t>(draft.sequence)].takes_at_hand) drafted += draft.index == 1 ? 2 : 1;
    const double of_these = tokens / time(n, n + static_cast<double>(m), drafted);
    if (of_these <= rate) continue;
    rate = of_these;
    best = m;
  }
  return best;
}

bool WidthPolicy::choose_best(std::span<WidthChoice> sequences) {
  const auto n = static_cast<int32_t>(sequences.size());
  bool at_hand = false;
  for (const WidthChoice& sequence : sequences) {
    estimate_of(sequence.slot);
    at_hand = at_hand || !sequence.at_hand.empty();
  }
  double best_rate = kWorthwhile * n / plain_time(n);
  size_t best = 0;
  if (at_hand) {
    list_drafts(sequences, false);
    best = best_number(sequences, best_rate);
  }
  if (proposes_) {
    const double without_proposer = best_rate;
    list_drafts(sequences, true);
    const size_t best_proposed = best_number(sequences, best_rate);
    if (best_rate > without_proposer) {
      best = best_proposed;
    } else {
      list_drafts(sequences, false);
    }
  }
  double& pace = paces_[size_class(n)];
  pace += (pace > 0 ? kPaceRate : 1.0) * (best_rate - pace);
  pace_ = best_rate;
  for (size_t m = 0; m < best; ++m) slots_[sequences[drafts_[m].sequence].slot].drafts = drafts_[m].index;
  for (WidthChoice& sequence : sequences) {
    Estimate& estimate = slots_[sequence.slot];
    const int32_t drafts = std::exchange(estimate.drafts, 0);
    const bool is_new = std::exchange(estimate.is_new, false);
    sequence.takes_at_hand = sequence.takes_at_hand && drafts > 0;
    if (drafts > 0 || sequence.width < 2 || !proposes_) {
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
  for (int32_t k = 1; k < max_width_; ++k) {
    estimate.survival[k] += kForgiveness * (prior_.survival[k] - estimate.survival[k]);
    estimate.chance[k] += kForgiveness * (prior_.chance[k] - estimate.chance[k]);
  }
  estimate.accepted += kForgiveness * (prior_.accepted - estimate.accepted);
  estimate.expected += kForgiveness * (prior_.expected - estimate.expected);
  const int32_t probe = std::min(kProbeWidth, most);
  const double unsettled = std::max(verify_excess_.on_the_whole(n, verify_.at(n)) - plain_time(n), 0.0);
  const double price = verify_.at(n + probe - 1) - verify_.at(n) + draft_.at(probe) + kSettled * unsettled;
  if (probe_credit_ < price) return 1;
  probe_credit_ = 0;
  return probe;
}

// Positions that were verified move towards what happened; those beyond continue the last ratio.
void WidthPolicy::learn(Estimate& estimate, int32_t drafted, int32_t accepted, double rate) const {
  auto& survival = estimate.survival;
  for (int32_t k = 1; k <= drafted; ++k) survival[k] += rate * ((accepted >= k ? 1.0 : 0.0) - survival[k]);
  const double ratio = std::min(survival[drafted] / std::max(survival[drafted - 1], 1e-6), kMaxOptimistic);
  for (int32_t k = drafted + 1; k < max_width_; ++k) survival[k] = survival[k - 1] * ratio;
}

double WidthPolicy::next_prior_rate() { return std::max(kPriorRate, 1.0 / (kGuessedPasses + ++verified_passes_)); }

// A proposer knows which of its drafts are better than others, and by how much; how good they are on the whole shows in
// what became of them.
void WidthPolicy::learn(Estimate& estimate, std::span<const float> chances, double expected, double accepted,
                        double rate) const {
  estimate.expected += rate * (expected - estimate.expected);
  estimate.accepted += rate * (accepted - estimate.accepted);
  const double trust = trust_of(estimate.accepted, estimate.expected);
  for (int32_t k = 1; k < max_width_; ++k) {
    const auto at = static_cast<size_t>(k) - 1;
    estimate.chance[k] += rate * ((at < chances.size() ? chances[at] : 0.0) - estimate.chance[k]);
    estimate.survival[k] = std::min(trust * estimate.chance[k], 1.0);
  }
}

void WidthPolicy::observe_tree(int32_t slot, std::span<const float> chances, double expected, int32_t accepted) {
  learn(estimate_of(slot), chances, expected, accepted, kSlotRate);
  learn(prior_, chances, expected, accepted, next_prior_rate());
}

void WidthPolicy::budget(int32_t n, int32_t max_rows, RowBudget& budget) const {
  budget.times.clear();
  if (verify_.empty() || n == 0) return;
  budget.trust = trust_of(prior_.accepted, prior_.expected);
  budget.pace = pace_;
  for (int32_t rows = 0; rows <= max_rows; ++rows) budget.times.push_back(verify_time(n, rows));
}

void WidthPolicy::observe(int32_t slot, int32_t drafted, int32_t accepted) {
  if (drafted == 0) return;
  learn(estimate_of(slot), drafted, accepted, kSlotRate);
  learn(prior_, drafted, accepted, next_prior_rate());
}

}  // namespace ashlar
