// SPDX-License-Identifier: Apache-2.0
// Incremental decoding: any way of arrival gives the text of the whole.

#include "text/tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer/utf8.h"
#include "tokenizer_goldens.h"

namespace ashlar::test {
namespace {

class DetokenizerTest : public testing::TestWithParam<const char*> {};

TEST_P(DetokenizerTest, GoldenCasesTokenByToken) {
  const Tokenizer tokenizer = Tokenizer::from_file(tokenizer_path(GetParam()));
  for (const bool skip : {false, true}) {
    Detokenizer detokenizer(tokenizer, skip);  // used again after flush
    for (const auto& entry : goldens()["tokenizers"][GetParam()]["decode"]) {
      std::string text;
      for (const int32_t id : entry[0].get<std::vector<int32_t>>()) {
        const std::string delta = detokenizer.push(id);
        EXPECT_TRUE(text::is_valid_utf8(delta)) << hex(delta);
        text += delta;
      }
      text += detokenizer.flush();
      EXPECT_EQ(text, (skip ? entry.back() : entry[1]).get<std::string>());
    }
  }
}

/// The reference is not the detokeniser itself but the bytes of the pieces, decoded in one go.
TEST_P(DetokenizerTest, RandomIds) {
  const Tokenizer tokenizer = Tokenizer::from_file(tokenizer_path(GetParam()));
  const bool byte_level = std::string(GetParam()) != "byte_fallback" && std::string(GetParam()) != "words";
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    Detokenizer detokenizer(tokenizer, false);
    std::vector<int32_t> ids(random() % 12);
    std::string bytes;
    std::string text;
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer.vocab_size() + 2)) - 1;
      bytes += tokenizer.piece_bytes(id);
      const std::string delta = detokenizer.push(id);
      ASSERT_TRUE(text::is_valid_utf8(delta));
      text += delta;
      // Everything but the start of one character has been sent.
      if (byte_level) {
        ASSERT_GE(text.size() + 3, text::replace_invalid_utf8(bytes).size()) << shown(ids);
      }
    }
    text += detokenizer.flush();
    if (byte_level) {
      ASSERT_EQ(text, text::replace_invalid_utf8(bytes)) << shown(ids);
    }
    ASSERT_EQ(text, tokenizer.decode(ids, false)) << shown(ids);
  }
}

TEST_P(DetokenizerTest, TextComesBack) {
  if (std::string(GetParam()) == "words") return;  // lossy by design
  const Tokenizer tokenizer = Tokenizer::from_file(tokenizer_path(GetParam()));
  const bool normalizes = std::string(GetParam()) == "qwen" || std::string(GetParam()) == "pebble";
  const bool prefixes = std::string(GetParam()) == "gpt2_prefix";
  size_t compared = 0;
  for (const std::string& text : golden_strings()) {
    const bool plain = text.find('<') == std::string::npos && text.find('[') == std::string::npos;
    const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
    if (std::string(GetParam()) == "byte_fallback" && text.find("\u2581") != std::string::npos)
      continue;  // means a space
    if (!plain || text.empty() || (normalizes && !ascii) || (prefixes && text[0] != ' ')) continue;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), false), text) << hex(text.substr(0, 60));
    ++compared;
  }
  EXPECT_GE(compared, 100U);
}

INSTANTIATE_TEST_SUITE_P(Styles, DetokenizerTest,
                         testing::Values("gpt2", "gpt2_prefix", "llama3", "qwen", "ling", "byte_fallback", "words",
                                         "pebble"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DetokenizerTest, HoldsBackHalfACharacter) {
  const Tokenizer tokenizer = Tokenizer::from_file(tokenizer_path("plain"));
  std::vector<int32_t> ids;  // the bytes F0 9F A6 A5 in the byte alphabet
  for (const char* spelling : {"ð", "Ł", "¦", "¥"}) ids.push_back(tokenizer.token_id(spelling).value());
  Detokenizer detokenizer(tokenizer, false);
  EXPECT_EQ(detokenizer.push(ids[0]), "");
  EXPECT_EQ(detokenizer.push(ids[1]), "");
  EXPECT_EQ(detokenizer.push(ids[2]), "");
  EXPECT_EQ(detokenizer.push(ids[3]), "\U0001F9A5");
  EXPECT_EQ(detokenizer.push(ids[0]), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.push(ids[1]), "\uFFFD");
}

}  // namespace
}  // namespace ashlar::test
