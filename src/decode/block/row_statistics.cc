#include "decode/block/row_statistics.h"

#include <algorithm>
#include <cmath>

#include "decode/row_math.h"

namespace ashlar {
namespace {

int32_t argmax_without(const float* logits, int32_t n, int32_t skip) {
  const int32_t left = argmax(logits, skip);
  const int32_t right = skip + 1 + argmax(logits + skip + 1, n - skip - 1);
  if (skip == 0) return n > 1 ? right : skip;
  if (skip + 1 >= n) return left;
  return logits[right] > logits[left] ? right : left;
}

// -sum p log p with p = exp(x) / sum, x <= 0.
double entropy_of(const float* logits, int32_t n, float highest, double sum) {
  double weighted = 0;
  for (int32_t i = 0; i < n; ++i) {
    const float x = logits[i] - highest;
    if (x > -40.0F) weighted += std::exp(x) * x;
  }
  return std::log(sum) - weighted / sum;
}

}  // namespace

RowStatistics row_statistics(const float* logits, int32_t n, bool wants_entropy) {
  RowStatistics row;
  row.best = argmax(logits, n);
  row.second = argmax_without(logits, n, row.best);
  const float highest = logits[row.best];
  const double sum = exp_sum(logits, n, highest, 1.0F);
  row.p_best = static_cast<float>(1.0 / sum);
  if (row.second != row.best) row.p_second = static_cast<float>(std::exp(logits[row.second] - highest) / sum);
  if (wants_entropy) row.entropy = static_cast<float>(std::max(entropy_of(logits, n, highest, sum), 0.0));
  return row;
}

float row_probability(const float* logits, int32_t n, int32_t id) {
  const float highest = logits[argmax(logits, n)];
  return static_cast<float>(std::exp(logits[id] - highest) / exp_sum(logits, n, highest, 1.0F));
}

}  // namespace ashlar
