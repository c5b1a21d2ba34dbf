// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/logit_divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ashlar {
namespace {

TEST(RowDivergence, IsTheSumByHand) {
  // p = (1/2, 1/4, 1/4), q = (1/4, 1/4, 1/2), whatever is added to all logits of a row.
  const float base[] = {std::log(2.0F) + 5, 5, 5};
  const float other[] = {-3, -3, std::log(2.0F) - 3};
  const RowDivergence row = compare_rows(base, other, 2);
  EXPECT_NEAR(row.kl, 0.25 * std::log(2.0), 1e-6);  // 1/2 log 2 + 0 + 1/4 log 1/2
  EXPECT_NEAR(row.base_nll, std::log(4.0), 1e-6);
  EXPECT_NEAR(row.nll, std::log(2.0), 1e-6);
  EXPECT_FALSE(row.same_top);
  const float sharp[] = {std::log(6.0F), 0, 0};  // (3/4, 1/8, 1/8): the divergence has a direction
  EXPECT_NEAR(compare_rows(base, sharp, 0).kl, 0.5 * std::log(2.0 / 3) + 0.5 * std::log(2.0), 1e-6);
  EXPECT_NEAR(compare_rows(sharp, base, 0).kl, 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-6);
}

TEST(RowDivergence, OfEqualRowsIsZeroAndOfNoNumbersInfinite) {
  const float row[] = {0.5F, -1, 80, -90};
  EXPECT_EQ(compare_rows(row, row, 0).kl, 0);
  EXPECT_TRUE(compare_rows(row, row, 0).same_top);
  const float none[] = {0.5F, std::numeric_limits<float>::quiet_NaN(), 80, -90};
  EXPECT_EQ(compare_rows(row, none, 0).kl, std::numeric_limits<double>::infinity());
}

TEST(EvaluationText, NamesNoSpreadOfOneWindow) {
  const double nats[] = {300, 310};
  const double tokens[] = {100, 100};
  for (const size_t windows : {1, 2}) {
    Perplexity perplexity;
    LogitDivergence divergence;
    divergence.of = {0.5};
    perplexity.windows = divergence.windows = static_cast<int64_t>(windows);
    perplexity.nll = divergence.kl = pooled_ratio(std::span(nats, windows), std::span(tokens, windows));
    EXPECT_EQ(perplexity_text(perplexity, {}).find("+-") != std::string::npos, windows > 1);
    EXPECT_EQ(divergence_text(divergence, {}).find("+-") != std::string::npos, windows > 1);
    EXPECT_EQ(perplexity_json(perplexity, {})["standard_error"].is_number(), windows > 1);
    EXPECT_EQ(divergence_json(divergence, {})["kl_standard_error"].is_number(), windows > 1);
  }
}

}  // namespace
}  // namespace ashlar
