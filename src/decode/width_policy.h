#pragma once
// How many drafts to verify. A wide pass costs more, and how much more depends on the machine; how many drafts survive
// depends on the text. The policy picks the width with the most expected tokens per unit of time. It cannot change a
// token, only when it comes.

#include <array>
#include <cstdint>
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
  std::vector<Point> points_;
};

class WidthPolicy {
 public:
  /// Fixed at `max_width` until costs are known.
  WidthPolicy(int32_t max_width, int32_t max_slots);

  /// Turns the policy on. verify: the target's pass with head; draft: the proposer's pass for that many rows.
  void set_costs(RowCost verify, RowCost draft);

  /// Forgets what the slot's last sequence was like.
  void admit(int32_t slot);
  /// Starts a step in which `n` sequences decode together.
  void begin_step(int32_t n);
  /// The width for a slot in this step.
  int32_t choose(int32_t slot);
  /// False while so many sequences decode together, and have for a while, that not even good drafts would pay.
  bool hopeful() const { return hopeless_steps_ < kGiveUpAfter; }
  /// Takes in a pass that judged `drafted` drafts and accepted `accepted` of them, and that did not end the sequence.
  void observe(int32_t slot, int32_t drafted, int32_t accepted);

  /// Takes in the time of a step of decode spans only: `rows` in all, `drafted_rows` of them in spans with drafts. What
  /// the measured costs leave out (attention over long contexts, the drafter's context, sampling) shows here.
  void observe_step(int32_t rows, int32_t drafted_rows, double time);

  /// Estimated probability that at least k drafts are accepted, k from 0.
  double survival(int32_t slot, int32_t k) const { return slots_[slot].survival[k]; }

 private:
  static constexpr int32_t kGiveUpAfter = 32;  // steps

  struct Estimate {
    std::array<double, kMaxWidth> survival{};
  };
  /// Tokens per unit of time at `width` for all `n_` sequences if this many are expected of each pass.
  double rate(int32_t width, double expected) const;
  bool good_drafts_would_pay() const;
  void learn(Estimate& estimate, int32_t drafted, int32_t accepted, double rate) const;

  int32_t max_width_;
  RowCost verify_, draft_;
  int32_t n_ = 1;
  int32_t hopeless_steps_ = 0;
  // Time of steps to what the costs predict, slowly moving: with and without drafts.
  double drafting_ratio_ = 1.0, plain_ratio_ = 1.0;
  double probe_credit_ = 0;  // time that may be spent on finding out whether drafts have become better
  Estimate prior_;           // of all sequences, slowly moving
  std::vector<Estimate> slots_;
};

}  // namespace ashlar
