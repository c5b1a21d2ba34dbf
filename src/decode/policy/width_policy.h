#pragma once
// How many drafts to verify. A wide pass costs more, and how much more depends on the machine; how many drafts survive
// depends on the text. The policy picks the drafts of all sequences of a step that give the most expected tokens per
// unit of time. It cannot change a token, only when it comes.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/step.h"

namespace ashlar {

/// Time of a pass by its number of rows, between and beyond the measured points linear.
class RowCost {
 public:
  /// Points ascend in rows. Noise only ever adds time, and more rows never take less: earlier points are lowered to the
  /// new one.
  void add(int32_t rows, double time);
  double at(double rows) const;
  bool empty() const { return points_.empty(); }

 private:
  struct Point {
    double rows, time;
  };
  double between_points(double rows) const;

  std::vector<Point> points_;
  std::array<double, 257> table_{};  // of whole rows, which are looked up a thousand times a step of a crowd
};

/// How wide a sequence's pass may be and shall be.
struct WidthChoice {
  int32_t slot = 0;
  int32_t width = 1;  ///< in: the most; out: the choice
  int32_t most = 0;   ///< out: the most
  /// Drafts that need no proposer, where there are some: chances that the first 1, 2, ... of them are all accepted.
  std::span<const float> at_hand = {};
  bool takes_at_hand = false;  ///< out: these instead of the proposer's
};

class WidthPolicy {
 public:
  /// Every pass is as wide as it may be until costs are known. `proposes`: whether there are other drafts than those at
  /// hand.
  WidthPolicy(int32_t max_width, int32_t max_slots, bool proposes = true);

  /// Turns the policy on. verify: the target's pass with head; draft: the proposer's pass for that many rows; both
  /// while they take turns. settled: the share of that which the target's passes take when no drafts come between them.
  void set_costs(RowCost verify, RowCost draft, double settled = 1.0);

  /// Forgets what the slot's last sequence was like. The one call that may come while others work on other slots.
  void admit(int32_t slot) { slots_[slot].admitted = true; }
  /// Chooses the widths of all sequences that decode in this step, each at most what it may have. True if the proposer
  /// shall fill blocks as wide as they may be all the same, since that costs next to nothing.
  bool choose(std::span<WidthChoice> sequences);
  /// What rows cost in the step of `n` sequences whose widths choose() chose last, up to `max_rows` of them.
  void budget(int32_t n, int32_t max_rows, RowBudget& budget) const;
  /// False while so many sequences decode together, and have for a while, that not even drafts much better than the
  /// common ones would pay: then keeping the drafter informed is not worth its price.
  bool hopeful() const { return hopeless_steps_ < kGiveUpAfter; }
  /// Takes in a pass that verified `drafted` drafts and accepted `accepted` of them, and that did not end the sequence.
  void observe(int32_t slot, int32_t drafted, int32_t accepted);

  /// The same of a tree of drafts: chances[k] is what its proposer gives the k + 1st likeliest draft, `expected` the
  /// sum over those that were verified.
  void observe_tree(int32_t slot, std::span<const float> chances, double expected, int32_t accepted);

  /// Takes in the times of a step of `n` sequences that all decode: `rows` in all, `drafted_rows` of them in spans with
  /// drafts of the proposer's. verify: of the target's pass with sampling; draft: of the proposer's, its context
  /// included. What the measured costs leave out (attention over long contexts, many sequences) shows here.
  void observe_step(int32_t n, int32_t rows, int32_t drafted_rows, double verify, double draft);

  /// Estimated probability that the k-th draft is accepted, k from 0: of a chain, that at least k are.
  double survival(int32_t slot, int32_t k) const { return (slots_[slot].admitted ? prior_ : slots_[slot]).survival[k]; }

 private:
  static constexpr int32_t kGiveUpAfter = 32;  // steps
  static constexpr int32_t kFirstTrial = 512;

  struct Estimate {
    std::array<double, kMaxWidth> survival{};
    // Of trees: what the proposer gives its k-th draft, the drafts it expects to be accepted and those that are.
    std::array<double, kMaxWidth> chance{};
    double expected = 1.0, accepted = 1.0;
    bool admitted = true;  // and nothing else is known: the common estimate counts
    bool is_new = false;   // its first width is being chosen
    int32_t drafts = 0;    // of this step
  };
  struct Draft {
    double chance;  // that it is accepted with all before it
    int32_t sequence;
    int32_t index;  // in its chain, from 1
  };
  static constexpr size_t kSizes = 10;  // of crowds: [i] has 2^(i-1) + 1 to 2^i sequences

  static constexpr size_t kRowClasses = 20;  // of passes: [i] has i + 1 rows up to 16, then 32, 64, 128, and all beyond

  // What passes take beyond their costs, slowly moving, by the size of the crowd. More is mostly the same for wide
  // passes and for narrow ones; less means that something slowed the calibration down. Where passes of so many rows
  // were seen often, theirs counts: a few milliseconds of calibration may have met a noisy neighbour at one size only.
  struct Excess {
    std::array<double, kSizes> time{};                            // added
    std::array<double, kSizes> share{};                           // of the cost
    std::array<int32_t, kSizes> seen{};                           // passes; 0: as with other sizes
    std::array<std::array<double, kRowClasses>, kSizes> ratio{};  // of the whole, by rows
    std::array<std::array<int32_t, kRowClasses>, kSizes> seen_rows{};

    Excess() { share.fill(1.0); }
    void learn(int32_t n, double rows, double cost, double measured);
    bool knows(int32_t n) const { return seen[size_class(n)] > 0; }
    double of(int32_t n, double rows, const RowCost& costs) const;
    double on_the_whole(int32_t n, double cost) const;
  };

  // When to find out again what passes without drafts take in a row.
  struct Trial {
    int32_t interval = kFirstTrial;
    int32_t left = kFirstTrial;  // steps with drafts until then
  };

  static size_t size_class(int32_t n);
  static size_t row_class(double rows);
  /// Of a step of n sequences with drafts, `drafted_rows` of them in spans of the proposer's.
  double time(int32_t n, double rows, double drafted_rows) const;
  /// Of one without, after others without.
  double plain_time(int32_t n) const;
  bool good_drafts_would_pay(int32_t n) const;
  /// The slot's estimate, which begins with the common one.
  Estimate& estimate_of(int32_t slot);
  bool whole_blocks_are_cheap(std::span<const WidthChoice> sequences) const;
  bool prefers_at_hand(const WidthChoice& sequence, const Estimate& estimate, int32_t n) const;
  void list_drafts(std::span<WidthChoice> sequences, bool proposes);
  size_t best_number(std::span<const WidthChoice> sequences, double& rate) const;
  /// Whether there are drafts, those of sequences that are tried again left out.
  bool choose_best(std::span<WidthChoice> sequences);
  int32_t try_again(Estimate& estimate, bool is_new, int32_t most, int32_t n);
  void learn(Estimate& estimate, int32_t drafted, int32_t accepted, double rate) const;
  void learn(Estimate& estimate, std::span<const float> chances, double expected, double accepted, double rate) const;
  double verify_time(int32_t n, double rows) const;
  double next_prior_rate();
  void sort_drafts();

  int32_t max_width_;
  bool proposes_;
  RowCost verify_, draft_;
  double settled_ = 1.0;
  int32_t hopeless_steps_ = 0;
  // The target's passes without drafts between them, its others, and the proposer's. A drafter drives the target's
  // weights out of caches that would hold them, and where that is much, plain decoding must be known as it is by
  // itself.
  Excess settled_excess_, verify_excess_, draft_excess_;
  int32_t steps_without_ = 0;  // the proposer, in a row
  int32_t trial_steps_ = 0;    // left of a trial
  std::array<Trial, kSizes> trials_;
  std::array<double, kSizes> paces_{};  // expected tokens per time, slowly moving; 0: not known
  double pace_ = 0;                     // that of this step
  double probe_credit_ = 0;             // time that may be spent on finding out whether drafts have become better
  Estimate prior_;                      // of all sequences, slowly moving
  double verified_passes_ = 0;          // passes that moved it
  std::vector<Estimate> slots_;
  std::vector<Draft> drafts_;  // of the step
};

}  // namespace ashlar
