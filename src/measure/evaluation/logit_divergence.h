// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far the next-token distributions of one model are from those of another with the same tokens, over a text: what a
// scheme of weights costs, much more finely than by the text's perplexity.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/json.h"
#include "measure/evaluation/perplexity.h"
#include "model/model.h"

namespace ashlar {

/// Of one row of logits from that of the base model.
struct RowDivergence {
  double kl = 0;        ///< KL(base || other), in nats
  double base_nll = 0;  ///< of the token that came next
  double nll = 0;
  bool same_top = false;  ///< the likeliest token is the same, the lowest id of equals
};

/// `base` and `other`: logits by token; sums are in double precision. A row with what is no number diverges infinitely.
RowDivergence compare_rows(std::span<const float> base, std::span<const float> other, int32_t next);

struct LogitDivergence {
  int64_t windows = 0;
  Ratio kl;                ///< mean a token; windows are what is independent
  Ratio base_nll, nll;     ///< means a token
  std::vector<double> of;  ///< the divergence of each token
  double same_top = 0;     ///< share of tokens
  double seconds = 0;

  int64_t tokens() const { return static_cast<int64_t>(of.size()); }
};

/// Runs the windows (text_windows) through both models, in pairs of chunks; the second half of each counts. Both
/// predict the next token and have the same vocabulary; no engine may use them meanwhile.
LogitDivergence measure_divergence(Model& base, Model& other, const std::vector<std::vector<int32_t>>& windows,
                                   const PerplexityOptions& options, const OnCompleted& progress);

std::string divergence_text(const LogitDivergence& result, const PerplexityOptions& options);
Json divergence_json(const LogitDivergence& result, const PerplexityOptions& options);

}  // namespace ashlar
