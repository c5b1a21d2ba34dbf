// Tokens to text with stop strings: the delta texts, the stop and the number of tokens it took.

#include "text/output_text.h"

#include <gtest/gtest.h>

#include <random>

#include "text/utf8.h"
#include "tokenizer_goldens.h"

namespace ashlar::test {
namespace {

const Tokenizer& qwen() {
  static const Tokenizer instance = Tokenizer::from_file(tokenizer_path("qwen"));
  return instance;
}

TEST(OutputText, StopsAndCountsTokens) {
  const std::string text = "one two STOP three";
  const std::vector<int32_t> ids = qwen().encode(text);
  OutputText output(qwen(), true, {"never", "STOP"});
  const auto delta = output.push(ids);
  EXPECT_EQ(delta.text, "one two ");
  EXPECT_TRUE(delta.stopped);
  EXPECT_EQ(delta.stop_string, 1U);
  // The consumed tokens hold the stop string, one token fewer does not.
  const std::span<const int32_t> all(ids);
  EXPECT_NE(qwen().decode(all.first(delta.consumed), true).find("STOP"), std::string::npos);
  EXPECT_EQ(qwen().decode(all.first(delta.consumed - 1), true).find("STOP"), std::string::npos);
  EXPECT_EQ(output.consumed(), delta.consumed);
  const auto after = output.push(ids);
  EXPECT_EQ(after.text, "");
  EXPECT_EQ(after.consumed, 0U);
  EXPECT_TRUE(after.stopped);
  EXPECT_EQ(output.flush().text, "");
}

TEST(OutputText, FlushGivesWhatWasHeldBack) {
  OutputText output(qwen(), true, {"abcdef"});
  EXPECT_EQ(output.push(qwen().encode("xabc")).text, "x");
  const auto end = output.flush();
  EXPECT_EQ(end.text, "abc");
  EXPECT_FALSE(end.stopped);
}

TEST(OutputText, ABrokenCharacterAtTheEndMayCompleteAStop) {
  const std::vector<int32_t> sloth = qwen().encode("\U0001F9A5");
  ASSERT_GT(sloth.size(), 1U);
  OutputText output(qwen(), true, {"!\uFFFD"});
  std::vector<int32_t> ids = qwen().encode("no!");
  ids.push_back(sloth[0]);
  EXPECT_EQ(output.push(ids).text, "no");
  const auto end = output.flush();
  EXPECT_EQ(end.text, "");
  EXPECT_TRUE(end.stopped);
}

/// However the tokens are grouped, text and count are those of one token at a time.
TEST(OutputText, GroupingDoesNotMatter) {
  std::mt19937 random(9);
  size_t stopped = 0;
  for (int round = 0; round < 1500; ++round) {
    std::vector<int32_t> ids(random() % 30);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 300);
    const std::string whole = qwen().decode(ids, true);
    std::vector<std::string> stops;
    if (whole.size() > 4) {
      const std::string cut = whole.substr(random() % (whole.size() - 2), 1 + random() % 3);
      if (text::is_valid_utf8(cut)) stops.push_back(cut);
    }
    stops.push_back("\uFFFD\uFFFD\uFFFD");
    OutputText grouped(qwen(), true, stops);
    OutputText single(qwen(), true, stops);
    std::string grouped_text;
    std::string single_text;
    for (size_t at = 0; at < ids.size();) {
      const size_t take = std::min<size_t>(1 + random() % 6, ids.size() - at);
      grouped_text += grouped.push(std::span(ids).subspan(at, take)).text;
      at += take;
    }
    for (const int32_t id : ids) single_text += single.push(std::span(&id, 1)).text;
    EXPECT_EQ(grouped.consumed(), single.consumed());
    const auto grouped_end = grouped.flush();
    const auto single_end = single.flush();
    EXPECT_EQ(grouped_text + grouped_end.text, single_text + single_end.text);
    EXPECT_EQ(grouped_end.stop_string, single_end.stop_string);
    if (!single_end.stopped) {
      EXPECT_EQ(single_text + single_end.text, whole);
    } else {
      const size_t at = (single_text + single_end.text).size();
      EXPECT_TRUE(whole.starts_with(single_text + single_end.text));
      const auto hit = *single_end.stop_string;
      EXPECT_EQ(whole.substr(at, stops[hit].size()), stops[hit]);
      ++stopped;
    }
  }
  EXPECT_GT(stopped, 300U);
}

}  // namespace
}  // namespace ashlar::test
