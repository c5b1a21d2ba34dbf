// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decodes the same prompts at several temperatures and block widths, with and without drafts, and compares token by
// token.

#include <map>
#include <string>
#include <vector>

#include "measure/completion.h"
#include "measure/evaluation/acceptance.h"

namespace ashlar {

/// A prompt ready for the engine.
struct PromptIds {
  std::string name;
  std::string category;
  std::vector<int32_t> ids;
};

struct AcceptanceOptions {
  std::vector<double> temperatures = {0, 0.7, 1};
  std::vector<int32_t> widths;  ///< rows of a verify span, last token included
  int32_t max_tokens = 128;
  std::vector<int32_t> stop_ids;
  SamplingParams sampling;  ///< temperature is taken from the list above; the scheme must be coupled
  int32_t batch = 1;        ///< requests at a time
  bool identity = true;
};

/// All prompts at one temperature and width.
struct AcceptanceCell {
  double temperature = 0;
  int32_t width = 0;
  AcceptanceTally all;
  std::map<std::string, AcceptanceTally> by_category;  ///< empty if no prompt has a category
};

/// An answer that differs from plain decoding's.
struct Mismatch {
  std::string prompt;
  double temperature = 0;
  int32_t width = 0;
  size_t index = 0;  ///< first token that differs
};

class AcceptanceStudy {
 public:
  AcceptanceStudy(AcceptanceOptions options, std::vector<PromptIds> prompts);

  /// Requests that run_plain and run_drafted run together; what `progress` counts up to.
  int64_t total_requests() const;

  /// Decodes everything with an engine that has no drafter; its answers are the reference of the identity check.
  void run_plain(Engine& engine, const OnCompleted& progress);
  /// Decodes everything with an engine that drafts: at each width, and with identity also at width 1.
  void run_drafted(Engine& engine, const OnCompleted& progress);

  const AcceptanceOptions& options() const { return options_; }
  size_t prompts() const { return prompts_.size(); }
  /// By temperature, then by width, as in the options.
  const std::vector<AcceptanceCell>& cells() const { return cells_; }
  /// Tokens per second of plain decoding, by temperature.
  const std::vector<double>& plain_tokens_per_second() const { return plain_speed_; }
  int64_t compared() const { return compared_; }
  const std::vector<Mismatch>& mismatches() const { return mismatches_; }

 private:
  std::vector<Completion> run(Engine& engine, double temperature, int32_t width, const OnCompleted& progress);
  void compare(const std::vector<Completion>& answers, size_t temperature, int32_t width);

  AcceptanceOptions options_;
  std::vector<PromptIds> prompts_;
  std::vector<std::vector<std::vector<int32_t>>> plain_;  // [temperature][prompt]: tokens
  std::vector<double> plain_speed_;
  std::vector<AcceptanceCell> cells_;
  int64_t compared_ = 0;
  int64_t done_ = 0;
  std::vector<Mismatch> mismatches_;
};

}  // namespace ashlar
