// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the passes of a step take: a table that is measured when the engine starts, by rows and by what attention reads,
// and what steps have shown since.

#include <array>
#include <cstdint>
#include <vector>

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
  std::array<double, 257> table_{};  // of whole rows, which are looked up a thousand times a step of many sequences
};

/// What one pass computes, over all of its sequences.
struct PassLoad {
  double rows = 0;
  double keys = 0;      ///< that some row of a sequence sees, of each sequence once: what is read
  double row_keys = 0;  ///< that each row sees: what is computed

  /// The first `n` rows of the pass of one sequence, or of several that are alike, each of which sees `context` keys.
  void add(double n, double context, double sequences = 1) {
    keys += sequences * context;
    add_rows(n, context);
  }
  void add_rows(double n, double context) {
    rows += n;
    row_keys += n * context;
  }
};

/// Time of a pass: of its rows in a short context, and of attention over a longer one.
struct PassCost {
  RowCost rows;
  double key = 0, row_key = 0;  ///< time for each of PassLoad's

  bool empty() const { return rows.empty(); }
  double of(const PassLoad& load) const { return rows.at(load.rows) + key * load.keys + row_key * load.row_keys; }
};

/// Keys that a row sees, on average over the layers, by the tokens before it.
class KeysSeen {
 public:
  /// `windows`: of each layer with attention; 0: it sees everything.
  explicit KeysSeen(std::vector<int32_t> windows = {}) : windows_(std::move(windows)) {}
  double of(int32_t context) const;

 private:
  std::vector<int32_t> windows_;
};

/// The costs of a step's passes, corrected by what steps took. All times have one scale, which is the start's: whatever
/// slows the whole machine down is kept apart, since it changes no choice.
class StepCosts {
 public:
  /// verify: the target's pass with head; draft: the proposer's; both while they take turns. steady: the share of it
  /// that the target's passes take when no drafts come between them.
  void set(PassCost verify, PassCost draft, double steady);
  bool known() const { return !verify_.empty(); }

  double verify(const PassLoad& load) const { return corrected(kVerify, verify_, load); }
  double draft(const PassLoad& load) const { return load.rows > 0 ? corrected(kDraft, draft_, load) : 0.0; }
  /// A step without the proposer, after others without.
  double plain(const PassLoad& load) const { return corrected(kPlain, verify_, load); }
  /// A step as the next one would be: without the proposer's pass caches hold what they held after the last step.
  double step(const PassLoad& verified, const PassLoad& drafted) const;
  /// One row more, of a sequence with `keys` in the target's context and `draft_keys` in the proposer's: what it takes
  /// beyond a row without context.
  double row_context(double keys, double draft_keys) const {
    return verify_.row_key * keys + draft_.row_key * draft_keys;
  }
  /// What the proposer's pass takes more for a sequence that has `draft_keys` in its context.
  double context(double draft_keys) const { return draft_.key * draft_keys; }

  /// Takes in what a step took, verify: the target's pass with sampling; draft: the proposer's, its context included.
  void observe(const PassLoad& verified, const PassLoad& drafted, double verify, double draft);

 private:
  enum Kind : uint8_t { kVerify, kPlain, kDraft, kKinds };
  static constexpr int32_t kClasses =
      24;  // of passes: [i] has i + 1 rows up to 16, then 32, 64, to 2,048, and all beyond

  static int32_t row_class(double rows);
  double corrected(Kind kind, const PassCost& cost, const PassLoad& load) const {
    return cost.of(load) * factor_[kind][row_class(load.rows)];
  }
  double learn(Kind kind, double rows, double cost, double measured);
  void believe(Kind kind);

  PassCost verify_, draft_;
  double steady_ = 1.0;
  bool has_pace_ = false;
  double pace_ = 0;            // log of what everything takes now, times its costs
  int32_t steps_without_ = 0;  // the proposer, in a row
  // By kind and rows: log of what passes took, times their costs and the pace; how many were seen; what follows for a
  // pass of that size, from its like and from those that are near.
  std::array<std::array<double, kClasses>, kKinds> error_{};
  std::array<std::array<int32_t, kClasses>, kKinds> seen_{};
  std::array<std::array<double, kClasses>, kKinds> factor_{};
};

}  // namespace ashlar
