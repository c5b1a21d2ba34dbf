// SPDX-License-Identifier: Apache-2.0
#pragma once
// A drafter is trained on with the traffic that a server kept, and takes the place of the one before where it wins on
// traffic that it was not trained on.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "io/json.h"
#include "measure/evaluation/acceptance.h"
#include "session/session.h"

namespace ashlar {

struct CalibrationOptions {
  std::filesystem::path traffic;  ///< what `ashlar serve --learn` keeps
  std::filesystem::path output;   ///< folder of the drafter that wins; empty: kFolder in that of the traffic
  double minutes = 10;            ///< of training at most
  int64_t epochs = 3;             ///< likewise
  double learning_rate = 1e-4;
  int32_t answer_tokens = 128;  ///< most of an answer that the drafters are compared on
  uint64_t seed = 0;            ///< of the prompts that are held out, and of the training

  static constexpr const char* kFolder = "drafter";
  std::filesystem::path folder() const { return output.empty() ? traffic / kFolder : output; }
};

/// Both drafters on the same answers, as served.
struct DrafterComparison {
  AcceptanceTally before, after;

  /// Of fewer answers with a verify step the noise would be all.
  static constexpr size_t kFewestPairs = 8;

  /// Of pairs of answers in which both verified.
  Ratio gain() const { return after.gain_over(before); }
  /// By more than twice the gain's standard error, of as many pairs as that needs.
  bool won() const { return gain().pairs >= kFewestPairs && gain().value > 2 * gain().error; }
};

/// Whether a calibration may replace what is there: the folder of a drafter, whatever its method.
bool may_replace(const std::filesystem::path& folder);
/// Throws Error("calibrate", ...) if the output folder holds what a calibration would not replace.
void check_output(const CalibrationOptions& options);
/// Throws Error("calibrate", ...) that says why if the session's drafter is not one that is trained.
void check_is_trained(const Session& session);

/// The session's options with the drafter to start from: the one that they name, or that of the output folder, or the
/// one that the model would be served with. Throws Error("calibrate", ...) if the paths are not what they must be.
SessionOptions with_first_drafter(SessionOptions session, const CalibrationOptions& options);

/// Answers held-out prompts with the session's drafter, trains it on, answers them again, and replaces the output
/// folder with it where it won. Nothing if Ctrl-C or SIGTERM ended it, which changes no file. Throws Error saying what
/// of the traffic or of the drafter is not as it must be.
std::optional<DrafterComparison> calibrate(Session& session, const CalibrationOptions& options);

/// Both as JSON, for programs.
Json comparison_json(const DrafterComparison& comparison, const CalibrationOptions& options);

/// Both in a table, what was done, and the command that serves `model` with what was written.
std::string comparison_text(const DrafterComparison& comparison, const std::string& model, const std::string& before,
                            const CalibrationOptions& options);

}  // namespace ashlar
