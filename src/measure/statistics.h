// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small statistics over measured values.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ashlar {

/// Mean; 0 of nothing.
double mean(std::span<const double> values);
/// Sample standard deviation (n - 1); 0 of fewer than two values.
double standard_deviation(std::span<const double> values);
/// Standard error of the mean: standard_deviation / sqrt(n); 0 of fewer than two values.
double standard_error(std::span<const double> values);
/// The value below which `share` (0 to 1) of the values lie, with linear interpolation between neighbours (type 7 of
/// Hyndman and Fan 1996, the usual default); 0 of nothing.
double quantile(std::vector<double> values, double share);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// sum(numerators) / sum(denominators) and its standard error where the pairs, not their parts, are independent: the
/// linearised ratio estimator of cluster sampling (Cochran 1977, 6.4). Steps of one prompt resemble each other, so a
/// prompt is one cluster.
struct Ratio {
  double value = 0;
  double error = 0;  ///< 0 of fewer than two pairs
  size_t pairs = 0;  ///< 0: there is nothing to divide by

  bool has_error() const { return pairs > 1; }  ///< one pair says nothing of the spread
};
Ratio pooled_ratio(std::span<const double> numerators, std::span<const double> denominators);

/// What such a ratio is made of, an entry of each for a prompt.
struct RatioPairs {
  std::span<const double> numerators, denominators;
};
/// The second of two such ratios less the first, of the same prompts in the same order: what prompts have in common is
/// no noise of the difference (the same estimator, of its linearised residuals).
Ratio paired_gain(const RatioPairs& before, const RatioPairs& after);

}  // namespace ashlar
