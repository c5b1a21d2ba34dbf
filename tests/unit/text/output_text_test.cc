// SPDX-License-Identifier: Apache-2.0
// Tokens to text with stop strings: the delta texts, the stop and the number of tokens it took.

#include "text/output/output_text.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer/utf8.h"
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

TEST(OutputText, StopsAtSpecialTokensThatTheTextLeavesOut) {
  const std::vector<int32_t> ids = qwen().encode("one<|im_end|>\ntwo");
  for (const auto& [stop, text] : std::vector<std::pair<std::string, std::string>>{{"<|im_end|>", "one"},
                                                                                   {"ne<|im_end|>", "o"},
                                                                                   {"<|im_end|>\nt", "one"},
                                                                                   {"ne\ntw", "o"},
                                                                                   {"one\n", ""},
                                                                                   {"im_end", "one"}}) {
    for (const bool skip : {true, false}) {
      OutputText output(qwen(), skip, {stop});
      std::string found = output.push(ids).text + output.flush().text;
      if (!skip && (stop == "ne\ntw" || stop == "one\n")) {
        EXPECT_FALSE(output.stopped()) << stop;
        continue;
      }
      EXPECT_TRUE(output.stopped()) << stop << skip;
      EXPECT_EQ(found, !skip && stop == "im_end" ? "one<|" : text) << stop << skip;
    }
  }
}

/// A text ends where a stop string comes in it or in what the model wrote, and never has one.
TEST(OutputText, LooksForStopStringsInBothTexts) {
  std::mt19937 random(4);
  const std::vector<std::string> pieces = {"a", "b", "<|im_end|>", "<|im_start|>"};
  const auto some = [&](size_t most) {
    std::string text;
    for (size_t n = 1 + random() % most; n > 0; --n) text += pieces[random() % pieces.size()];
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string written = some(12);
    const std::vector<std::string> stops = {some(3), some(4)};
    const std::vector<int32_t> ids = qwen().encode(written);
    const std::string visible = qwen().decode(ids, true);
    OutputText output(qwen(), true, stops);
    std::string text;
    for (const int32_t id : ids) text += output.push({&id, 1}).text;
    text += output.flush().text;
    bool expected = false;
    for (const std::string& stop : stops) {
      expected = expected || written.find(stop) != std::string::npos || visible.find(stop) != std::string::npos;
      EXPECT_EQ(text.find(stop), std::string::npos) << written << " " << stop;
    }
    EXPECT_EQ(output.stopped(), expected) << written << " " << stops[0] << " " << stops[1];
    EXPECT_TRUE(visible.starts_with(text)) << written;
    if (!expected) {
      EXPECT_EQ(text, visible);
    }
    stopped += expected ? 1 : 0;
  }
  EXPECT_GT(stopped, 500);
  EXPECT_LT(stopped, 2500);
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
