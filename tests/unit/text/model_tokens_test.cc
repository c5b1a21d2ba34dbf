// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;

/// Ids 0 to 2 and 5 to 7; 3 and 4 are rows of the embedding that no token has.
Tokenizer small() {
  return Tokenizer::from_json(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "added_tokens": [{"id": 5, "content": "<end>", "special": true}, {"id": 6, "content": "<pad>", "special": true},
                     {"id": 7, "content": "<\u001bx>", "special": true}]})",
                              "small");
}

TEST(ModelTokens, TheTokenizersEndOfSequenceStopsBesidesTheConfigured) {
  const TempFolder folder;
  const Tokenizer tokenizer = small();
  const auto stops = [&](const std::string& config, int32_t vocab = 8) {
    folder.write("tokenizer_config.json", config);
    return stop_ids_of(folder.path(), tokenizer, {0, 2}, vocab);
  };
  EXPECT_EQ(stop_ids_of(folder.path(), tokenizer, {0, 2}, 8), Ids({0, 2})) << "no file";
  EXPECT_EQ(stops(R"({"eos_token": "<end>"})"), Ids({0, 2, 5}));
  EXPECT_EQ(stops(R"({"eos_token": {"content": "<end>", "special": true}})"), Ids({0, 2, 5}));
  EXPECT_EQ(stops(R"({"eos_token": "ab"})"), Ids({0, 2})) << "it is there already";
  EXPECT_EQ(stops(R"({"eos_token": "<other>"})"), Ids({0, 2})) << "no token";
  EXPECT_EQ(stops(R"({"eos_token": null})"), Ids({0, 2}));
  EXPECT_EQ(stops(R"({"eos_token": 5})"), Ids({0, 2}));
  EXPECT_EQ(stops(R"({"eos_token": "<end>"})", 5), Ids({0, 2})) << "the model never says it";
}

TEST(ModelTokens, TokensBeyondTheVocabularyAreNoted) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(note_on_tokens_beyond(tokenizer, 8), "");
  EXPECT_EQ(note_on_tokens_beyond(tokenizer, 100), "");
  EXPECT_THAT(note_on_tokens_beyond(tokenizer, 7),
              HasSubstr("1 token beyond the model's vocabulary of 7: '<?x>' (id 7); prompts that contain it are"));
  EXPECT_THAT(
      note_on_tokens_beyond(tokenizer, 3),
      HasSubstr("3 tokens beyond the model's vocabulary of 3: '<end>' (id 5) and others; prompts that contain"));
}

TEST(ModelTokens, PromptsOfTokensBeyondTheVocabularyAreRefusedByName) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(token_beyond(tokenizer, Ids({0, 5, 6}), 7), std::nullopt);
  EXPECT_EQ(token_beyond(tokenizer, Ids({}), 7), std::nullopt);
  EXPECT_EQ(
      token_beyond(tokenizer, tokenizer.encode("a<pad>b"), 6),
      "the prompt has the token '<pad>' (id 6), which the model has no embedding for: its 6 tokens have the ids 0 "
      "to 5");
  EXPECT_THAT(*token_beyond(tokenizer, Ids({0, 99}), 7), HasSubstr("the token (id 99), which"));
  EXPECT_THAT(*token_beyond(tokenizer, Ids({-1}), 7), HasSubstr("the token (id -1), which"));
}

/// A model may choose a row of its embedding that no token has.
TEST(ModelTokens, IdsWithoutATokenAreNoText) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.decode(Ids({0, 3, 1, 4, 99, -1}), false), tokenizer.decode(Ids({0, 1}), false));
  EXPECT_EQ(tokenizer.piece_bytes(3), "");
  EXPECT_EQ(tokenizer.token_content(3), "");
  EXPECT_FALSE(tokenizer.is_special(3));
  EXPECT_FALSE(tokenizer.is_added(3));
}

}  // namespace
}  // namespace ashlar
