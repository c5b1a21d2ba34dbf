// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern/pattern_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ashlar::text {
namespace {

using Found = std::vector<std::pair<size_t, uint32_t>>;

using Takes = bool (*)(size_t begin, uint32_t pattern);

bool takes_all(size_t, uint32_t) { return true; }

Found found_in(const PatternSet& set, std::string_view text, Takes takes = takes_all) {
  Found found;
  set.find_all(text, [&](PatternSet::Match match) {
    if (!takes(match.begin, match.pattern)) return false;
    found.emplace_back(match.begin, match.pattern);
    return true;
  });
  return found;
}

/// By definition: the leftmost, the longest of those, the first of equals.
Found by_trying_all(const std::vector<std::string_view>& patterns, std::string_view text, Takes takes = takes_all) {
  Found found;
  for (size_t at = 0; at < text.size();) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < patterns.size(); ++i) {
      const auto is_first = [&] { return std::ranges::find(patterns, patterns[i]) == patterns.begin() + i; };
      const bool here = !patterns[i].empty() && text.substr(at).starts_with(patterns[i]) && takes(at, i) && is_first();
      if (here && (best == UINT32_MAX || patterns[i].size() > patterns[best].size())) best = i;
    }
    if (best != UINT32_MAX) found.emplace_back(at, best);
    at += best == UINT32_MAX ? 1 : patterns[best].size();
  }
  return found;
}

TEST(PatternSet, FindsWhatTryingAllFinds) {
  std::mt19937 random(5);
  const auto word = [&random](size_t most, unsigned letters) {
    std::string out(random() % (most + 1), '\0');
    for (char& c : out) c = static_cast<char>(random() % letters == 0 ? 0xFF : 'a' + random() % letters);
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    const unsigned letters = 1 + random() % 4;
    std::vector<std::string> words(random() % 12);
    for (std::string& each : words) each = word(6, letters);
    const std::vector<std::string_view> patterns(words.begin(), words.end());
    const std::string text = word(60, letters);
    const PatternSet set(patterns);
    ASSERT_EQ(found_in(set, text), by_trying_all(patterns, text)) << text;
    const Takes some = [](size_t begin, uint32_t pattern) { return (7 * begin + 5 * pattern) % 3 != 0; };
    ASSERT_EQ(found_in(set, text, some), by_trying_all(patterns, text, some)) << text;
  }
}

/// Texts are read in parts of 64 KiB; matches lie across their borders.
TEST(PatternSet, BordersOfPartsShowNowhere) {
  for (const size_t length : {1U, 7U, 1000U, 70'000U}) {
    const std::string longest(length, 'a');
    const std::vector<std::string_view> patterns = {"ab", longest};
    for (const size_t size : {65'535U, 65'536U, 65'537U, 140'000U, 210'001U}) {
      const std::string text = std::string(size, 'a') + "b";
      ASSERT_EQ(found_in(PatternSet(patterns), text), by_trying_all(patterns, text)) << length << " " << size;
    }
  }
}

/// Sets whose every place begins with most of the patterns: what costs a step for each byte of each would take days.
TEST(PatternSet, CostsOnePassWhateverThePatterns) {
  std::vector<std::string> words;
  for (int i = 0; i < 100'000; ++i) words.push_back("<" + std::to_string(i));
  words.push_back(std::string(500'000, '<') + "!");
  words.emplace_back("<");
  const PatternSet set({words.begin(), words.end()});
  const std::string text(4'000'000, '<');
  EXPECT_EQ(found_in(set, text).size(), text.size());
  EXPECT_EQ(found_in(set, text.substr(0, 500'000) + "!").size(), 1U);
  EXPECT_EQ(found_in(set, "<99999<1234567"), (Found{{0, 99999}, {6, 12345}}));
}

TEST(PatternSet, AnEmptySetFindsNothing) {
  EXPECT_TRUE(PatternSet().empty());
  EXPECT_TRUE(PatternSet(std::vector<std::string_view>{""}).empty());
  EXPECT_TRUE(found_in(PatternSet(), "abc").empty());
  EXPECT_TRUE(found_in(PatternSet(std::vector<std::string_view>{"a"}), "").empty());
}

}  // namespace
}  // namespace ashlar::text
