// SPDX-License-Identifier: Apache-2.0
#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace ashlar {

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double standard_error(std::span<const double> values) {
  return values.empty() ? 0 : standard_deviation(values) / std::sqrt(static_cast<double>(values.size()));
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

Ratio pooled_ratio(std::span<const double> numerators, std::span<const double> denominators) {
  ASHLAR_CHECK_EQ(numerators.size(), denominators.size());
  const double above = std::accumulate(numerators.begin(), numerators.end(), 0.0);
  const double below = std::accumulate(denominators.begin(), denominators.end(), 0.0);
  if (below == 0) return {};
  Ratio ratio = {above / below, 0, numerators.size()};
  const auto n = static_cast<double>(numerators.size());
  if (n < 2) return ratio;
  double squares = 0;
  for (size_t i = 0; i < numerators.size(); ++i) {
    const double residual = numerators[i] - ratio.value * denominators[i];
    squares += residual * residual;
  }
  ratio.error = std::sqrt(squares * n / (n - 1)) / below;
  return ratio;
}

Ratio paired_gain(const RatioPairs& before, const RatioPairs& after) {
  const size_t n = before.numerators.size();
  ASHLAR_CHECK_EQ(n, after.numerators.size());
  std::vector<double> differences(n);
  const auto add_residuals = [&](const RatioPairs& pairs, double sign) {
    const double ratio = pooled_ratio(pairs.numerators, pairs.denominators).value;
    const double below = mean(pairs.denominators) * static_cast<double>(n);
    for (size_t i = 0; i < n && below > 0; ++i) {
      differences[i] += sign * (pairs.numerators[i] - ratio * pairs.denominators[i]) / below;
    }
    return ratio;
  };
  const double old = add_residuals(before, -1);
  Ratio gain = {add_residuals(after, 1) - old, 0, n};
  if (n < 2) return gain;
  const double squares = std::inner_product(differences.begin(), differences.end(), differences.begin(), 0.0);
  gain.error = std::sqrt(squares * static_cast<double>(n) / static_cast<double>(n - 1));
  return gain;
}

}  // namespace ashlar
