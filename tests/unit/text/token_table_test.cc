// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace ashlar::text {
namespace {

TEST(TokenTable, AnEmptyOneHoldsNothing) {
  TokenTable table;
  EXPECT_EQ(table.size(), 0U);
  EXPECT_FALSE(table.find(""));
  table.reserve(0);
  EXPECT_FALSE(table.contains("a"));
  EXPECT_TRUE(table.add("", 3));
  EXPECT_EQ(table.find(""), 3);
}

// Against std::map, with and without room reserved: short texts, so that many are there twice, with zero bytes in some.
class TokenTableRandom : public testing::TestWithParam<size_t> {};

TEST_P(TokenTableRandom, AnswersAsAMapDoes) {
  TokenTable table;
  table.reserve(GetParam());
  std::map<std::string, int32_t> expected;
  std::vector<std::string> order;
  uint64_t state = 12345;
  const auto draw = [&](uint32_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<uint32_t>(state >> 33) % below;
  };
  for (int32_t i = 0; i < 20'000; ++i) {
    std::string text(draw(5), 'a');
    for (char& c : text) c = static_cast<char>(draw(20));
    const bool is_new = expected.emplace(text, i).second;
    if (is_new) order.push_back(text);
    ASSERT_EQ(table.add(text, i), is_new);
    std::string other(draw(5), 'a');
    for (char& c : other) c = static_cast<char>(draw(20));
    const auto found = expected.find(other);
    const auto id = table.find(other);
    ASSERT_EQ(id.has_value(), found != expected.end());
    if (id) {
      ASSERT_EQ(*id, found->second);
    }
  }
  ASSERT_EQ(table.size(), expected.size());
  for (size_t i = 0; i < table.size(); ++i) {
    ASSERT_EQ(table[i].spelling, order[i]);
    ASSERT_EQ(table[i].id, expected.at(order[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Room, TokenTableRandom, testing::Values(0, 1, 100, 30'000));

}  // namespace
}  // namespace ashlar::text
