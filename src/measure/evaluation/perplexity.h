// SPDX-License-Identifier: Apache-2.0
#pragma once
// How well a model predicts a text: exp of the mean negative log-probability of its tokens.

#include <cstdint>
#include <optional>
#include <vector>

#include "io/json.h"
#include "measure/completion.h"
#include "measure/statistics.h"

namespace ashlar {

struct PerplexityOptions {
  int32_t window = 512;  ///< tokens that the model sees together
  int32_t batch = 4;     ///< windows at a time
  size_t limit = 0;      ///< windows; 0: all
};

/// A text in windows of one length that do not overlap; what is left at its end is left out. The first half of a window
/// is context only, as in llama.cpp's tool, whose figures these compare with. `first`: the token that the tokenizer
/// puts before a text stands in the place of each window's first.
std::vector<std::vector<int32_t>> text_windows(const std::vector<int32_t>& text, std::optional<int32_t> first,
                                               const PerplexityOptions& options);

struct Perplexity {
  int64_t windows = 0;
  int64_t tokens = 0;    ///< that were predicted
  Ratio nll;             ///< mean negative log-probability of a token, in nats; windows are what is independent
  double top_share = 0;  ///< tokens that were the likeliest
  double seconds = 0;

  double value() const;
  double error() const;  ///< standard error of value(), where nll.has_error()
};

/// Runs the windows. The engine's decoder scores prompts (Engine::scores_prompts).
Perplexity measure_perplexity(Engine& engine, const std::vector<std::vector<int32_t>>& windows,
                              const PerplexityOptions& options, const OnCompleted& progress);

/// What was counted: "the second halves of 3 windows of 512".
std::string windows_text(int64_t windows, int32_t window);

std::string perplexity_text(const Perplexity& result, const PerplexityOptions& options);
Json perplexity_json(const Perplexity& result, const PerplexityOptions& options);

}  // namespace ashlar
