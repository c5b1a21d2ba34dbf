// SPDX-License-Identifier: Apache-2.0
#pragma once
// Passes over one row of logits. Sixteen lanes in a fixed arrangement, so that every machine gets the same bits.

#include <cstdint>
#include <vector>

namespace ashlar {

/// Index of the largest value, the lowest on a tie; values that are not numbers never win (0 if nothing else is there).
int32_t argmax(const float* values, int32_t n);

/// Index of the first of n values that equals `value`, a number; n if none does.
int32_t first_of(const float* values, int32_t n, float value);

/// Indices of the largest value and of the next one, the lowest of equals; -1 where there is none: values that are not
/// numbers and minus infinity take no part.
struct TopTwo {
  int32_t best = -1;
  int32_t second = -1;
};
TopTwo top_two(const float* values, int32_t n);

/// Indices of the k largest values, best first, the lowest index of equals; values that are not numbers and minus
/// infinity never win. Returns how many there are: at most k.
int32_t top_k(const float* values, int32_t n, int32_t k, int32_t* indices);

/// Sum over i of exp((values[i] - highest) * inverse_temperature), relative error about 1e-6; `highest` is the largest
/// value.
double exp_sum(const float* values, int32_t n, float highest, float inverse_temperature);

/// The same with inverse temperature 1 for who only wants to know about how much: what the largest value has is exact,
/// the rest within 4 %, a quarter of the time.
double rough_exp_sum(const float* values, int32_t n, float highest);

/// Sums over i of e = exp(values[i] - highest), and of e * (values[i] - highest), as exact as exp_sum.
struct ExpMoments {
  double sum = 0;
  double weighted = 0;
};
ExpMoments exp_moments(const float* values, int32_t n, float highest);

/// The passes above as one instruction set runs them.
struct RowMath {
  int32_t (*argmax)(const float* values, int32_t n);
  int32_t (*first_of)(const float* values, int32_t n, float value);
  TopTwo (*top_two)(const float* values, int32_t n);
  int32_t (*top_k)(const float* values, int32_t n, int32_t k, int32_t* indices);
  double (*exp_sum)(const float* values, int32_t n, float highest, float inverse_temperature);
  double (*rough_exp_sum)(const float* values, int32_t n, float highest);
  ExpMoments (*exp_moments)(const float* values, int32_t n, float highest);
};
/// Those that run on this machine, fastest first: the first is the one in use, and all give the same bits.
std::vector<RowMath> row_maths();

}  // namespace ashlar
