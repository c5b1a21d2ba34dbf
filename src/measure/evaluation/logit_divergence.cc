// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/logit_divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/clock.h"
#include "decode/logits.h"
#include "measure/report/table.h"
#include "model/sequence_forward.h"

namespace ashlar {
namespace {

/// Where log-probabilities come from: log p(i) = logits[i] - log_sum.
struct LogSum {
  double value;
  size_t top;

  explicit LogSum(std::span<const float> logits)
      : top(static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[top]);
    value = logits[top] + std::log(sum);
  }
};

/// A model's logits over chunks of a window, on the host.
class Side {
 public:
  Side(Model& model, int32_t window)
      : forward_(model, window, kLogitRows),
        logits_(model.ops(), kLogitRows, model.config().vocab),
        host_(static_cast<size_t>(kLogitRows) * static_cast<size_t>(model.config().vocab)) {}

  /// Runs a chunk and brings the logits of its rows from `first_output` on. Returns how many there are.
  int32_t run(std::span<const int32_t> window, int32_t start, int32_t rows, int32_t first_output) {
    const Tensor hidden = forward_.forward(window, start, rows, first_output);
    const int32_t outputs = std::max(0, start + rows - std::max(start, first_output));
    if (outputs == 0) return 0;
    const Model& model = forward_.model();
    const Tensor logits = logits_.rows(outputs);
    model.head(hidden.narrow(outputs), logits);
    model.ops().download(reinterpret_cast<const std::byte*>(logits.data), host_.data(),
                         static_cast<size_t>(outputs) * vocab() * sizeof(float));
    return outputs;
  }
  std::span<const float> row(int32_t index) const {
    return std::span(host_).subspan(static_cast<size_t>(index) * vocab(), vocab());
  }

 private:
  size_t vocab() const { return static_cast<size_t>(forward_.model().config().vocab); }

  SequenceForward forward_;
  LogitsBuffer logits_;
  std::vector<float> host_;
};

}  // namespace

RowDivergence compare_rows(std::span<const float> base, std::span<const float> other, int32_t next) {
  const LogSum base_sum(base), other_sum(other);
  RowDivergence row;
  const auto at = static_cast<size_t>(next);
  row.base_nll = base_sum.value - base[at];
  row.nll = other_sum.value - other[at];
  row.same_top = base_sum.top == other_sum.top;
  for (size_t i = 0; i < base.size(); ++i) {
    const double log_p = base[i] - base_sum.value;
    if (const double p = std::exp(log_p); p > 0) row.kl += p * (log_p - (other[i] - other_sum.value));
  }
  if (std::isnan(row.kl)) row.kl = std::numeric_limits<double>::infinity();
  row.kl = std::max(row.kl, 0.0);  // what rounding leaves of equal rows
  return row;
}

LogitDivergence measure_divergence(Model& base, Model& other, const std::vector<std::vector<int32_t>>& windows,
                                   const PerplexityOptions& options, const OnCompleted& progress) {
  ASHLAR_CHECK_EQ(base.config().vocab, other.config().vocab);
  Side base_side(base, options.window), other_side(other, options.window);
  const int64_t begin = now_ns();
  LogitDivergence result;
  std::vector<double> kl, base_nll, nll, counts;
  int64_t same = 0;
  const int32_t first = options.window / 2 - 1;  // its row predicts the second half's first token
  for (const std::vector<int32_t>& window : windows) {
    double sums[3] = {};
    for (int32_t start = 0; start + 1 < options.window; start += kLogitRows) {
      const int32_t rows = std::min(kLogitRows, options.window - 1 - start);
      const int32_t outputs = base_side.run(window, start, rows, first);
      ASHLAR_CHECK_EQ(other_side.run(window, start, rows, first), outputs);
      for (int32_t i = 0; i < outputs; ++i) {
        const auto next = static_cast<size_t>(start + rows - outputs + i + 1);
        const RowDivergence row = compare_rows(base_side.row(i), other_side.row(i), window[next]);
        result.of.push_back(row.kl);
        sums[0] += row.kl;
        sums[1] += row.base_nll;
        sums[2] += row.nll;
        same += row.same_top ? 1 : 0;
      }
    }
    kl.push_back(sums[0]);
    base_nll.push_back(sums[1]);
    nll.push_back(sums[2]);
    counts.push_back(options.window - 1 - first);
    if (progress) progress(++result.windows);
  }
  result.windows = static_cast<int64_t>(windows.size());
  result.kl = pooled_ratio(kl, counts);
  result.base_nll = pooled_ratio(base_nll, counts);
  result.nll = pooled_ratio(nll, counts);
  if (result.tokens() > 0) result.same_top = static_cast<double>(same) / static_cast<double>(result.tokens());
  result.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  return result;
}

std::string divergence_text(const LogitDivergence& result, const PerplexityOptions& options) {
  const std::string error = result.kl.has_error() ? " +- " + fixed(result.kl.error, 6) : "";
  return "KL divergence " + fixed(result.kl.value, 6) + error + " nats a token; median " +
         fixed(quantile(result.of, 0.5), 6) + ", 99 % below " + fixed(quantile(result.of, 0.99), 6) + ", largest " +
         fixed(quantile(result.of, 1), 6) + "\n" + percent(result.same_top) +
         " of the likeliest tokens are the same\nperplexity " + fixed(std::exp(result.nll.value), 4) + ", against " +
         fixed(std::exp(result.base_nll.value), 4) + "\n" + std::to_string(result.tokens()) + " tokens, " +
         windows_text(result.windows, options.window) + "\n";
}

Json divergence_json(const LogitDivergence& result, const PerplexityOptions& options) {
  return {{"kl", result.kl.value},
          {"kl_standard_error", result.kl.has_error() ? Json(result.kl.error) : Json()},
          {"kl_median", quantile(result.of, 0.5)},
          {"kl_99", quantile(result.of, 0.99)},
          {"kl_largest", quantile(result.of, 1)},
          {"same_top", result.same_top},
          {"perplexity", std::exp(result.nll.value)},
          {"base_perplexity", std::exp(result.base_nll.value)},
          {"tokens", result.tokens()},
          {"windows", result.windows},
          {"window", options.window},
          {"seconds", result.seconds}};
}

}  // namespace ashlar
