// SPDX-License-Identifier: Apache-2.0
#pragma once
// The drafter's self-test: a few short texts are drafted and verified, and far too few accepted drafts are said in
// plain words. A drafter that is wired wrongly still gives right answers, only slowly: without this no one would
// notice.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace ashlar {

struct DrafterCheck {
  int64_t steps = 0;                     ///< verify steps with at least one draft
  int64_t first_accepted = 0;            ///< of these, steps whose first draft was accepted
  double mean_length = 0;                ///< tokens a verify step, bonus included
  std::optional<double> recorded_first;  ///< what the drafter's acceptance.json promises for the first draft
  std::string drafter;                   ///< folder
  std::string target;                    ///< folder
  double seconds = 0;
  /// Of what else its configuration could have meant, and what drafts well.
  struct Repair {
    std::string what;  ///< in the words of its settings
    double first_rate = 0;
    double mean_length = 0;
  };
  std::optional<Repair> repair;
  int32_t repairs_tried = 0;
  std::vector<std::string> untried;  ///< settings for which there was no time
  std::string settings;              ///< where they stand: "config.json"; empty: it is the model's own layer

  double first_rate() const {
    return steps > 0 ? static_cast<double>(first_accepted) / static_cast<double>(steps) : 0.0;
  }
  /// Below this the drafter is not what it should be: half of the record, or a quarter where there is none.
  double threshold() const { return recorded_first ? 0.5 * *recorded_first : 0.25; }
  /// Far below, on enough steps to be sure; or so few tokens a step that drafting is not worth its cost.
  bool suspicious() const {
    return steps >= kFewestSteps && (first_rate() < threshold() || mean_length < kMinMeanLength);
  }
  /// Damage, whatever its record and its texts were.
  bool predicts_nothing() const { return steps >= kFewestSteps && first_rate() < kMinFirstRate; }

  static constexpr int64_t kFewestSteps = 6;
  static constexpr double kMinFirstRate = 0.05;
  static constexpr double kMinMeanLength = 1.3;  // what wrongly wired drafters reach on regular texts
};

/// Runs the test on an engine of its own and leaves the session without one. Takes a handful of verify steps, and where
/// they make the drafter suspicious as many for each of the usual mistakes, none of which begins after repair_seconds.
DrafterCheck check_drafter(Session& session, double repair_seconds = 30);
/// The same for the drafter of `spec`. 0: no mistakes are looked for.
DrafterCheck check_drafter(Session& session, const DecoderSpec& spec, double repair_seconds);

/// As open_session(), for a drafter that was trained here and which another one can stand in for: throws
/// Error("drafter", ...) if it predicts nothing. Without a self-test nothing is known of that.
std::unique_ptr<Session> open_drafting_session(const SessionOptions& options);

/// Throws Error("drafter", ...) with the figures if the drafter predicts nothing.
void refuse_if_blind(const DrafterCheck& check);

/// Empty if nothing is wrong; otherwise what was seen, what was expected, and the usual causes.
std::string warning_about(const DrafterCheck& check);

/// `first_position` of FOLDER/acceptance.json: {"first_position": 0.71}, the share of verify steps that accept the
/// first draft. Empty if there is no such file; throws Error if it is not of that form.
std::optional<double> recorded_first_acceptance(const std::filesystem::path& folder);

}  // namespace ashlar
