// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/width_policy.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace ashlar {
namespace {

constexpr double kBetterHalf = 0.5;   // drafts better than most so far: as far from the common chance to certainty
constexpr double kWorthwhile = 1.03;  // gain below which plain passes are preferred: drafts cost more than is modelled
constexpr double kWorthKeeping = 1.15;     // gain for which a drafter is kept informed that no sequence uses
constexpr double kProbeShare = 0.005;      // of the time of plain passes, spent on trying drafts again
constexpr double kFirstProbeShare = 0.05;  // before anything is known of drafts
constexpr int32_t kProbeWidth = 4;
constexpr int32_t kPassesToRecover = 8;  // from a probe: until plain passes find what they need in caches again
constexpr double kGainRate = 0.05;
constexpr int32_t kTrialSteps = 16;
constexpr int32_t kRarestTrial = 4096;  // steps with drafts from one trial to the next: 0.4 % of them are tried without
constexpr double kMinChance = 0.02;     // of drafts worth a thought
constexpr double kWorthOfWholeBlocks = 0.03;  // more tokens from drafters that see all of their block

}  // namespace

WidthPolicy::WidthPolicy(int32_t max_width, int32_t max_slots, ProposerRows proposer)
    : max_width_(max_width), proposer_(proposer), survival_(max_slots) {
  drafts_.reserve(static_cast<size_t>(max_slots) * max_width);
  chosen_.reserve(static_cast<size_t>(max_slots));
}

bool WidthPolicy::choose(std::span<WidthChoice> sequences) {
  plain_ = {};
  for (WidthChoice& sequence : sequences) {
    sequence.most = sequence.width = std::min(sequence.width, max_width_);
    plain_.add(1, sequence.keys);
    if (proposes()) continue;
    sequence.width = std::min(sequence.width, static_cast<int32_t>(sequence.at_hand.size()) + 1);
    sequence.takes_at_hand = sequence.width > 1;
  }
  if (!costs_.known() || sequences.empty()) return false;
  plain_time_ = costs_.plain(plain_);
  pace_ = gain_ * plain_.rows / plain_time_;
  if (!proposes()) {
    choose_best(sequences);
    return false;
  }
  take_hope(survival_.guesses() || good_drafts_would_pay(sequences));
  probe_credit_ += (survival_.guesses() ? kFirstProbeShare : kProbeShare) * plain_time_;
  if (trial_steps_ > 0) {
    --trial_steps_;
    for (WidthChoice& sequence : sequences) sequence.width = 1;
    return false;
  }
  if (choose_best(sequences)) count_towards_trial(sequences.size());
  return proposer_ == ProposerRows::kAll || whole_blocks_are_cheap(sequences);
}

void WidthPolicy::take_hope(bool hope) {
  if (!hope) {
    hopeless_steps_ = std::min(hopeless_steps_ + 1, kGiveUpAfter);
  } else {
    hopeless_steps_ = gave_up_ ? std::max(hopeless_steps_ - kGiveUpAfter / kHopeAfter, 0) : 0;
  }
  gave_up_ = hopeless_steps_ == kGiveUpAfter || (gave_up_ && hopeless_steps_ > 0);
}

void WidthPolicy::count_towards_trial(size_t n) {
  Trial& trial = trials_[std::min<size_t>(std::bit_width(n - 1), trials_.size() - 1)];
  if (--trial.left > 0) return;
  trial_steps_ = kTrialSteps;
  trial.left = trial.interval = std::min(2 * trial.interval, kRarestTrial);
}

bool WidthPolicy::good_drafts_would_pay(std::span<const WidthChoice> sequences) const {
  const double common = survival_.common().chance[1];
  const double good = common + kBetterHalf * (1.0 - common);
  PassLoad verified = plain_;
  PassLoad drafted;
  for (const WidthChoice& sequence : sequences) {
    drafted.add(rows_of_proposer(0, sequence.most), sequence.draft_keys);
  }
  const PassLoad row = drafted;
  double expected = 1.0;
  double chance = 1.0;
  for (int32_t width = 2; width <= max_width_; ++width) {
    chance *= good;
    expected += chance;
    verified.add_rows(plain_.rows, plain_.keys / plain_.rows);
    if (proposer_ == ProposerRows::kAsWanted) drafted.add_rows(row.rows, row.keys / row.rows);
    if (expected / costs_.step(verified, drafted) > kWorthKeeping / plain_time_) return true;
  }
  return false;
}

bool WidthPolicy::whole_blocks_are_cheap(std::span<const WidthChoice> sequences) const {
  PassLoad verified;
  PassLoad drafted;
  PassLoad whole;
  for (const WidthChoice& sequence : sequences) {
    verified.add(sequence.width, sequence.keys);
    if (sequence.width == 1 || sequence.takes_at_hand) continue;
    drafted.add(sequence.width, sequence.draft_keys);
    whole.add(sequence.most, sequence.draft_keys);
  }
  return whole.rows > drafted.rows &&
         costs_.draft(whole) - costs_.draft(drafted) < kWorthOfWholeBlocks * costs_.step(verified, drafted);
}

// Which drafts yield more at the pace of tokens, if all sequences of the step were and drafted as this one does.
bool WidthPolicy::prefers_at_hand(const WidthChoice& sequence, double n) const {
  if (sequence.at_hand.empty()) return false;
  const auto profit = [&](bool proposes) {
    const int32_t most =
        proposes ? sequence.width - 1 : std::min(sequence.width - 1, static_cast<int32_t>(sequence.at_hand.size()));
    PassLoad verified;
    PassLoad drafted;
    verified.add(n, sequence.keys, n);
    const double plain = costs_.step(verified, {});
    if (proposes) drafted.add(n * rows_of_proposer(0, sequence.most), sequence.draft_keys, n);
    double best = 0;
    double tokens = 0;
    for (int32_t k = 1; k <= most; ++k) {
      const double chance =
          proposes ? survival_.of(sequence.slot).chance[k] : sequence.at_hand[static_cast<size_t>(k) - 1];
      if (chance <= kMinChance) break;
      tokens += n * chance;
      verified.add_rows(n, sequence.keys);
      if (proposes && proposer_ == ProposerRows::kAsWanted) drafted.add_rows(n, sequence.draft_keys);
      best = std::max(best, tokens - pace_ * (costs_.step(verified, drafted) - plain));
    }
    return best;
  };
  return profit(false) > profit(true);
}

// Lists the drafts that may be verified, those of most worth first; without the proposer those at hand alone. Of one
// sequence, later drafts are worth less than earlier ones. One whose drafts do not even pay for the context that they
// have read is left out.
void WidthPolicy::list_drafts(std::span<WidthChoice> sequences, bool proposes) {
  drafts_.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    WidthChoice& sequence = sequences[i];
    const std::span<const float> at_hand = sequence.at_hand;
    sequence.takes_at_hand =
        proposes ? prefers_at_hand(sequence, static_cast<double>(sequences.size())) : !at_hand.empty();
    if (!proposes && at_hand.empty()) continue;
    const bool proposed = !sequence.takes_at_hand;
    const int32_t end = proposed ? sequence.width : std::min(sequence.width, static_cast<int32_t>(at_hand.size()) + 1);
    // A row's attention in both passes; that of whole blocks is paid with the first draft, as the context is.
    const bool each = proposed && proposer_ == ProposerRows::kAsWanted;
    const double row = pace_ * costs_.row_context(sequence.keys, each ? sequence.draft_keys : 0);
    double profit = proposed ? -pace_ * costs_.context(sequence.draft_keys) : 0;
    if (proposed && !each) profit -= pace_ * sequence.most * costs_.row_context(0, sequence.draft_keys);
    const size_t first = drafts_.size();
    for (int32_t k = 1; k < end; ++k) {
      const double chance = proposed ? survival_.of(sequence.slot).chance[k] : at_hand[static_cast<size_t>(k) - 1];
      if (chance <= kMinChance) break;
      drafts_.push_back({chance, chance - row, static_cast<int32_t>(i), k});
      profit += std::max(chance - row, 0.0);
    }
    if (profit <= 0) drafts_.resize(first);
  }
  std::sort(drafts_.begin(), drafts_.end(), [](const Draft& a, const Draft& b) {
    return std::tie(b.worth, a.index, a.sequence) < std::tie(a.worth, b.index, b.sequence);
  });
}

// How many of the drafts yield most tokens for their time, if that is more than `rate`: m of them cost what m rows
// cost, of any sequences, and their contexts. A sequence that has drafts proposed has a row for its last token in the
// drafter's pass too.
size_t WidthPolicy::best_number(std::span<const WidthChoice> sequences, double& rate) const {
  PassLoad verified = plain_;
  PassLoad drafted;
  double tokens = plain_.rows;
  size_t best = 0;
  for (size_t m = 1; m <= drafts_.size(); ++m) {
    const Draft& draft = drafts_[m - 1];
    const WidthChoice& sequence = sequences[static_cast<size_t>(draft.sequence)];
    tokens += draft.chance;
    verified.add_rows(1, sequence.keys);
    if (!sequence.takes_at_hand) {
      const int32_t before = draft.index > 1 ? rows_of_proposer(draft.index - 1, sequence.most) : 0;
      const int32_t more = rows_of_proposer(draft.index, sequence.most) - before;
      drafted.add(more, sequence.draft_keys, draft.index == 1 ? 1 : 0);
    }
    const double of_these = tokens / costs_.step(verified, drafted);
    if (of_these <= rate) continue;
    rate = of_these;
    best = m;
  }
  return best;
}

// Whether there are drafts, those of sequences that are tried again left out.
bool WidthPolicy::choose_best(std::span<WidthChoice> sequences) {
  const double plain_rate = plain_.rows / plain_time_;
  double rate = kWorthwhile * plain_rate;
  size_t best = 0;
  if (std::ranges::any_of(sequences, [](const WidthChoice& sequence) { return !sequence.at_hand.empty(); })) {
    list_drafts(sequences, false);
    best = best_number(sequences, rate);
  }
  if (proposes()) {
    const double without_proposer = rate;
    list_drafts(sequences, true);
    const size_t best_proposed = best_number(sequences, rate);
    if (rate > without_proposer) {
      best = best_proposed;
    } else {
      list_drafts(sequences, false);
    }
  }
  gain_ += kGainRate * (rate / plain_rate - gain_);
  best_rate_ = rate;
  chosen_.assign(sequences.size(), 0);
  for (size_t m = 0; m < best; ++m) chosen_[static_cast<size_t>(drafts_[m].sequence)] = drafts_[m].index;
  for (size_t i = 0; i < sequences.size(); ++i) {
    WidthChoice& sequence = sequences[i];
    const bool is_new = survival_.begin(sequence.slot);
    sequence.takes_at_hand = sequence.takes_at_hand && chosen_[i] > 0;
    if (chosen_[i] > 0 || sequence.width < 2 || !proposes()) {
      sequence.width = 1 + chosen_[i];
    } else {
      sequence.width = try_again(sequence, is_new);
    }
  }
  return best > 0;
}

// The width of a sequence none of whose drafts seems to pay. Without hope only new sequences are tried, whose drafter
// has seen the whole prompt: should the texts have become others, the common estimate learns of it.
int32_t WidthPolicy::try_again(const WidthChoice& sequence, bool is_new) {
  if (hopeless_steps_ > 0 && !is_new) return 1;
  survival_.forgive(sequence.slot);
  const int32_t probe = std::min(kProbeWidth, sequence.width);
  PassLoad verified = plain_;
  PassLoad drafted;
  verified.add_rows(probe - 1, sequence.keys);
  drafted.add(rows_of_proposer(probe - 1, sequence.most), sequence.draft_keys);
  const double price = costs_.verify(verified) - costs_.verify(plain_) + costs_.draft(drafted) +
                       kPassesToRecover * std::max(costs_.verify(plain_) - plain_time_, 0.0);
  if (probe_credit_ < price) return 1;
  probe_credit_ = 0;
  return probe;
}

void WidthPolicy::budget(std::span<const WidthChoice> sequences, int32_t max_rows, RowBudget& budget) const {
  budget.times.clear();
  if (!costs_.known() || sequences.empty()) return;
  budget.trust = survival_.common().trust();
  budget.pace = best_rate_;
  budget.row_key = costs_.row_context(1, 0);
  PassLoad load;
  for (const WidthChoice& sequence : sequences) load.add(0, sequence.keys);
  for (; load.rows <= max_rows; load.rows += 1) budget.times.push_back(costs_.verify(load));
}

}  // namespace ashlar
