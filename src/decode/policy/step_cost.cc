// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/step_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace ashlar {
namespace {

constexpr double kMinSteady = 0.5;     // share that a calibration may claim for steady passes: it lasts milliseconds
constexpr int32_t kSteadyAfter = 8;    // steps without drafts until caches hold what such steps read
constexpr double kErrorRate = 0.02;    // a step's share in what is known of its like: about fifty steps
constexpr double kPaceRate = 0.25;     // and in the pace: a neighbour's coming and going is over in a few
constexpr int32_t kFewPasses = 16;     // after which one that waited for something else counts for little
constexpr double kMaxSurprise = 0.25;  // then
constexpr double kMaxError = 2.0;      // a seventh of the cost to seven times as much
constexpr double kDoubt = 2.0;         // passes that the calibration counts for
constexpr double kOwn = 4.0;           // what a pass of the same kind and size says, to one of nearly the same size
constexpr double kOtherKind = 0.1;     // to one of the other kind
constexpr double kNearness = 2.0;      // octaves of rows, each halving that so often

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

double KeysSeen::of(int32_t context) const {
  if (windows_.empty()) return context;
  double sum = 0;
  for (const int32_t window : windows_) sum += window > 0 ? std::min(window, context) : context;
  return sum / static_cast<double>(windows_.size());
}

void StepCosts::set(PassCost verify, PassCost draft, double steady) {
  verify_ = std::move(verify);
  draft_ = std::move(draft);
  steady_ = std::clamp(steady, kMinSteady, 1.0);
  for (const Kind kind : {kVerify, kPlain, kDraft}) believe(kind);
}

int32_t StepCosts::row_class(double rows) {
  const auto whole = static_cast<uint32_t>(std::max(rows, 1.0));
  if (whole <= 16) return static_cast<int32_t>(whole) - 1;
  return std::min(static_cast<int32_t>(std::bit_width(whole - 1)) + 11, kClasses - 1);
}

double StepCosts::step(const PassLoad& verified, const PassLoad& drafted) const {
  if (drafted.rows > 0) return verify(verified) + draft(drafted);
  return steps_without_ > kSteadyAfter ? plain(verified) : verify(verified);
}

// Passes with and without drafts are held against the same pace, so that what slows the machine down is never taken for
// the price of either, though only one of them is measured meanwhile.
void StepCosts::observe(const PassLoad& verified, const PassLoad& drafted, double verify, double draft) {
  if (!known() || verified.rows == 0 || verify <= 0) return;
  steps_without_ = drafted.rows > 0 ? 0 : std::min(steps_without_ + 1, kSteadyAfter + 1);
  const bool steady = steps_without_ > kSteadyAfter;
  if (!has_pace_) {
    pace_ = std::log(verify / verify_.of(verified));
    seen_[kVerify][row_class(verified.rows)] = kFewPasses;  // what all else is held against
    has_pace_ = true;
  }
  const double surprise =
      learn(steady ? kPlain : kVerify, verified.rows, verify_.of(verified) * (steady ? steady_ : 1.0), verify);
  if (drafted.rows > 0) learn(kDraft, drafted.rows, draft_.of(drafted), draft);
  pace_ += kPaceRate * surprise;
}

// What is new is learnt of passes of a kind and size that were seldom seen, the pace of those that are well known. Each
// moves little by one that waited for something else, and moves back by the next ones. Returns what is left to the
// pace.
double StepCosts::learn(Kind kind, double rows, double cost, double measured) {
  if (cost <= 0 || measured <= 0) return 0;
  const int32_t own = row_class(rows);
  int32_t& seen = seen_[kind][own];
  double& error = error_[kind][own];
  const double most = seen < kFewPasses ? kMaxError : kMaxSurprise;
  const double surprise = std::clamp(std::log(measured / cost) - pace_ - error, -most, most);
  const double rate = std::max(kErrorRate, 1.0 / (kDoubt + seen));
  error = std::clamp(error + rate * surprise, -kMaxError, kMaxError);
  const double known = std::min(1.0, static_cast<double>(seen) / kFewPasses);
  if (seen < INT32_MAX) ++seen;
  for (const Kind other : {kVerify, kPlain, kDraft}) {
    if ((other == kDraft) == (kind == kDraft)) believe(other);
  }
  return known * surprise;
}

// Nothing here may favour one side: a bound from below by what fewer rows took, right as it sounds, is the largest of
// many noisy figures, and on a busy machine makes passes with drafts a tenth dearer than they are.
void StepCosts::believe(Kind kind) {
  // What passes of one class say of another; found once, since it takes longer than all else between two steps.
  static const auto says = [] {
    const auto octave = [](int32_t i) { return i < 16 ? std::log2(i + 1.0) : i - 11.5; };
    std::array<std::array<double, kClasses>, kClasses> part{};
    for (int32_t i = 0; i < kClasses; ++i) {
      for (int32_t j = 0; j < kClasses; ++j) {
        part[i][j] = i == j ? kOwn : std::exp2(-kNearness * std::abs(octave(i) - octave(j)));
      }
    }
    return part;
  }();
  for (int32_t i = 0; i < kClasses; ++i) {
    double sum = 0;
    double weight = kDoubt;
    for (const Kind from : {kVerify, kPlain, kDraft}) {
      if ((from == kDraft) != (kind == kDraft)) continue;
      for (int32_t j = 0; j < kClasses; ++j) {
        if (seen_[from][j] == 0) continue;
        const double passes = std::min(seen_[from][j], 4 * kFewPasses) * (from == kind ? 1.0 : kOtherKind);
        const double part = passes * says[i][j];
        sum += part * error_[from][j];
        weight += part;
      }
    }
    factor_[kind][i] = (kind == kPlain ? steady_ : 1.0) * std::exp(sum / weight);
  }
}

}  // namespace ashlar
