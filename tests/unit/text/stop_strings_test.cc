// SPDX-License-Identifier: Apache-2.0
// Stop strings against a search that looks at every prefix of the whole text.

#include "text/output/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer/utf8.h"

namespace ashlar::test {
namespace {

struct Found {
  std::string text;
  std::optional<size_t> hit;
  bool operator==(const Found&) const = default;
};

/// The first prefix of the text that ends in a stop string; the longest of those that it ends in.
Found naive(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      const std::string& stop = stops[i];
      if (stop.empty() || end < stop.size() || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!best || stop.size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

/// True when some stop string could begin at `at` and go on past the end of the text.
bool could_begin(const std::string& text, size_t at, const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.size() > text.size() - at && stop.starts_with(text.substr(at))) return true;
  }
  return false;
}

Found fed(const std::vector<std::string>& parts, const std::vector<std::string>& stops) {
  StopStrings search(stops);
  std::string seen;
  std::string out;
  for (const std::string& part : parts) {
    const bool before = search.stopped();
    const std::string delta = search.feed(part);
    EXPECT_TRUE(!before || delta.empty());
    EXPECT_TRUE(text::is_valid_utf8(delta));
    seen += part;
    out += delta;
    // What is held back must be needed, and nothing that is needed may be sent.
    if (!search.stopped() && out.size() < seen.size()) {
      EXPECT_TRUE(could_begin(seen, out.size(), stops));
    }
    for (size_t at = 0; at < out.size() && !search.stopped(); ++at) EXPECT_FALSE(could_begin(seen, at, stops));
  }
  const auto hit = search.hit();
  out += search.flush();
  return {out, hit};
}

TEST(StopStrings, AcrossParts) {
  EXPECT_EQ(fed({"Hel", "lo <", "|en", "d|> more"}, {"<|end|>"}), (Found{"Hello ", 0}));
  EXPECT_EQ(fed({"a <|en", "x"}, {"<|end|>"}), (Found{"a <|enx", std::nullopt}));
  EXPECT_EQ(fed({"a <|en"}, {"<|end|>"}), (Found{"a <|en", std::nullopt}));
  EXPECT_EQ(fed({"aab", "aac"}, {"aabaac"}), (Found{"", 0}));
  EXPECT_EQ(fed({"xab", "cd"}, {"abcd", "bc"}), (Found{"xa", 1}));  // complete first
  EXPECT_EQ(fed({"xabc"}, {"bc", "abc"}), (Found{"x", 1}));         // complete together: the longer
  EXPECT_EQ(fed({"text"}, {}), (Found{"text", std::nullopt}));
  EXPECT_EQ(fed({"text"}, {""}), (Found{"text", std::nullopt}));
  EXPECT_EQ(fed({"a", "é", "b"}, {"éb"}), (Found{"a", 0}));
}

TEST(StopStrings, BrokenUtf8InAStringCannotCutACharacter) {
  StopStrings search({"\xA9x", "\xC3"});
  EXPECT_EQ(search.feed("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_FALSE(search.stopped());
}

TEST(StopStrings, FlushBeginsANewText) {
  StopStrings search({"ab"});
  EXPECT_EQ(search.feed("xab"), "x");
  EXPECT_TRUE(search.stopped());
  EXPECT_EQ(search.feed("more"), "");
  EXPECT_EQ(search.flush(), "");
  EXPECT_FALSE(search.stopped());
  EXPECT_EQ(search.feed("ya"), "y");
  EXPECT_EQ(search.flush(), "a");
  EXPECT_EQ(search.feed("b"), "b");
}

TEST(StopStrings, RandomTextsAndSplits) {
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"a", "b", "c", "é", "ê"};  // é and ê share their first byte
  const auto text_of = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += letters[random() % letters.size()];
    return text;
  };
  size_t hits = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = text_of(random() % 6);
    std::vector<std::string> parts(random() % 8);
    std::string whole;
    for (std::string& part : parts) whole += part = text_of(random() % 5);
    const Found expected = naive(whole, stops);
    Found got = fed(parts, stops);
    if (expected.hit && got.hit && stops[*expected.hit] == stops[*got.hit]) got.hit = expected.hit;  // listed twice
    ASSERT_EQ(got, expected) << whole;
    hits += expected.hit.has_value();
  }
  EXPECT_GT(hits, 1000U);
}

}  // namespace
}  // namespace ashlar::test
