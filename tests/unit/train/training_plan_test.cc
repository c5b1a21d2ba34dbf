// SPDX-License-Identifier: Apache-2.0
// What a run decides before its first step: which tokens are drafted.

#include <gtest/gtest.h>

#include "train/data/frequent_tokens.h"

namespace ashlar {
namespace {

TEST(FrequentTokens, AreLearntMostOften) {
  DocumentSet documents(16);
  documents.add({{9, 9, 9, 7, 3, 7}, {0, 0, 0, 1, 1, 1}, 0});
  documents.end_file(0.25);
  documents.add({{9, 5, 3, 3}, {0, 1, 1, 1}, 0});
  documents.end_file();
  EXPECT_EQ(frequent_tokens(documents, 10, 1), (std::vector<int32_t>{3}));
  EXPECT_EQ(frequent_tokens(documents, 10, 3), (std::vector<int32_t>{3, 5, 7}));
  EXPECT_EQ(frequent_tokens(documents, 10, 4), (std::vector<int32_t>{0, 3, 5, 7}));
  EXPECT_DOUBLE_EQ(share_of_learnt(documents, std::vector<int32_t>{3}), 2.25 / 3.75);
}

}  // namespace
}  // namespace ashlar
