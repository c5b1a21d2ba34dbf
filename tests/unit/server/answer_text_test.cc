// SPDX-License-Identifier: Apache-2.0
// What a client gets of an answer does not depend on how its tokens came.

#include "server/service/answer_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "server/api/format/formats.h"

namespace ashlar::server {
namespace {

constexpr const char* kAnswer =
    "<think>Let me see: a < b.</think>\n\nFirst, \u00fc\U0001F30A.\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
    "{\"a\": 1, \"b\": \"</think>\"}}\n</tool_call>\nThen <b>.\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n"
    "</tool_call>\n<tool_call>{\"name\": \"h\", \"arguments\": {\"x\": 2}}</tool_call>\n<tool_call>oops\n Done.";

class AnswerTextTest : public ::testing::Test {
 protected:
  AnswerTextTest()
      : tokenizer_(Tokenizer::from_file(std::filesystem::path(ASHLAR_SOURCE_DIR) / "models/pebble-11m/tokenizer.json")),
        ids_(tokenizer_.encode(kAnswer, {.parse_special = false})) {
    model_.tokenizer = &tokenizer_;
    model_.stop_ids = {*tokenizer_.token_id("<|im_end|>")};
    generation_.prompts = {TextPrompt{"p"}};
    generation_.tool_choice = ToolChoice::kAuto;
    generation_.sampling.top_logprobs = 0;
  }

  /// The answer when its tokens come in chunks of 1 to `most`.
  FinishedAnswer answer(size_t most, std::mt19937& random) {
    AnswerText text(model_, generation_, 0, false, true);
    FinishedAnswer out;
    const auto take = [&](const std::vector<AnswerDelta>& deltas) {
      for (const AnswerDelta& delta : deltas) append(out, delta);
    };
    for (size_t at = 0; at < ids_.size();) {
      const size_t n = std::min(ids_.size() - at, 1 + random() % most);
      TokenChunk chunk;
      chunk.tokens.assign(ids_.begin() + static_cast<int64_t>(at), ids_.begin() + static_cast<int64_t>(at + n));
      chunk.logprobs.resize(n);
      chunk.n_drafted = static_cast<int32_t>(random() % (n + 1));
      drafted_ += chunk.n_drafted;
      take(text.take(chunk));
      at += n;
    }
    take(text.finish());
    out.end.tokens = text.tokens();
    reasoning_tokens_ = text.reasoning_tokens();
    return out;
  }

  Tokenizer tokenizer_;
  std::vector<int32_t> ids_;
  ServedModel model_;
  Generation generation_;
  int32_t drafted_ = 0, reasoning_tokens_ = 0;
};

// A part and its tokens: "call 0 {"a": 1} [5 6 7]".
std::string words_of(const AnswerDelta& part) {
  std::string out = part.reasoning.empty() ? "" : "reasoning " + part.reasoning;
  if (!part.content.empty()) out += "content " + part.content;
  for (const ToolCallDelta& call : part.tool_calls) {
    out += "call " + std::to_string(call.index) + " " + call.name + " " + call.arguments;
  }
  out += " [";
  for (const TokenPiece& token : part.tokens) out += std::to_string(token.id) + " ";
  return out + "] " + std::to_string(part.n_tokens);
}

std::vector<std::string> words_of(const FinishedAnswer& answer) {
  std::vector<std::string> out;
  for (const AnswerDelta& part : answer.parts) out.push_back(words_of(part));
  return out;
}

// Ids of calls differ from run to run.
Json without_ids(Json value) {
  if (value.is_object()) {
    value.erase("id");
    value.erase("call_id");
  }
  for (Json& item : value) {
    if (item.is_structured()) item = without_ids(std::move(item));
  }
  return value;
}

TEST_F(AnswerTextTest, PartsAndTheirTokensAreThoseOfSingleTokens) {
  std::mt19937 random(5);
  const FinishedAnswer single = answer(1, random);
  std::vector<std::string> texts;
  for (const AnswerDelta& part : single.parts) {
    texts.push_back(part.reasoning + part.content + (part.tool_calls.empty() ? "" : part.tool_calls[0].arguments));
  }
  EXPECT_EQ(texts,
            (std::vector<std::string>{"Let me see: a < b.", "First, \u00fc\U0001F30A.", R"({"a": 1, "b": "</think>"})",
                                      "\nThen <b>.", "{}", R"({"x": 2})", "\n<tool_call>oops\n Done."}));
  int32_t reasoning = 0;  // tokens up to the one that ends with the tag
  for (std::string text; text.find("</think>") == std::string::npos; ++reasoning) {
    text += tokenizer_.piece_bytes(ids_[static_cast<size_t>(reasoning)]);
  }
  EXPECT_EQ(reasoning_tokens_, reasoning);
  for (int round = 0; round < 100; ++round) {
    drafted_ = 0;
    const FinishedAnswer other = answer(1 + random() % 40, random);
    ASSERT_EQ(words_of(other), words_of(single));
    EXPECT_EQ(reasoning_tokens_, reasoning);
    EXPECT_EQ(other.end.tokens, static_cast<int32_t>(ids_.size()));
    int32_t tokens = 0, drafted = 0;
    for (const AnswerDelta& part : other.parts) {
      tokens += part.n_tokens;
      drafted += part.n_drafted;
    }
    EXPECT_EQ(tokens, static_cast<int32_t>(ids_.size()));
    EXPECT_EQ(drafted, drafted_);
  }
}

// Whether a vocabulary has tokens for the tags, and calls them special, is no matter of what they mean.
TEST_F(AnswerTextTest, TagsMayBeSpecialTokens) {
  std::mt19937 random(9);
  const auto texts = [&] {
    std::vector<std::string> out;
    for (const AnswerDelta& part : answer(9, random).parts) {
      out.push_back(part.reasoning + part.content + (part.tool_calls.empty() ? "" : part.tool_calls[0].arguments));
    }
    return out;
  };
  const std::vector<std::string> as_text = texts();
  const std::vector<int32_t> spelled = ids_;
  ids_ = tokenizer_.encode(R"(<think>Let me see: a < b.</think>)"
                           "\n\nFirst, \u00fc\U0001F30A.\n<tool_call>\n"
                           R"({"name": "f", "arguments": {"a": 1}})"
                           "\n</tool_call>\nThen <b>.");
  ASSERT_TRUE(tokenizer_.is_special(ids_.front()));
  EXPECT_EQ(texts(),
            (std::vector<std::string>{"Let me see: a < b.", "First, \u00fc\U0001F30A.", R"({"a": 1})", "\nThen <b>."}));
  // Elsewhere they are left out like other special tokens; the first </tool_call> ends what the text began.
  ids_ = spelled;
  for (const char* tag : {"<think>", "</think>", "</tool_call>", "</tool_call>"}) {
    ids_.push_back(*tokenizer_.token_id(tag));
  }
  std::vector<std::string> expected = as_text;
  expected.back() += "</tool_call>";
  EXPECT_EQ(texts(), expected);
}

TEST_F(AnswerTextTest, EveryApiTellsTheSame) {
  std::mt19937 random(6);
  for (const Api api : {Api::kChat, Api::kCompletions, Api::kResponses, Api::kMessages, Api::kGenerate}) {
    FormatContext context;
    context.generation = generation_;
    const auto body = [&](const FinishedAnswer& answer) {
      return without_ids(Json::parse(make_format(api, context)->body({answer}, {})));
    };
    const Json single = body(answer(1, random));
    for (int round = 0; round < 20; ++round) {
      ASSERT_EQ(body(answer(1 + random() % 60, random)), single);
    }
  }
}

TEST_F(AnswerTextTest, BlocksOfMessagesFollowTheText) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const Json body = Json::parse(make_format(Api::kMessages, {})->body({answer(ids_.size(), random)}, {}));
    std::string types;
    for (const Json& block : body["content"]) types += block["type"].get<std::string>() + " ";
    ASSERT_EQ(types, "thinking text tool_use text tool_use tool_use text ");
    EXPECT_EQ(body["content"][2]["input"], Json::parse(R"({"a":1,"b":"</think>"})"));
    EXPECT_EQ(body["content"][5]["input"], Json::parse(R"({"x":2})"));
  }
}

TEST_F(AnswerTextTest, TokensBehindAStopStringDoNotCount) {
  generation_.stop = {"Then"};
  std::mt19937 random(8);
  const FinishedAnswer single = answer(1, random);
  EXPECT_EQ(single.content, "First, \u00fc\U0001F30A.");
  EXPECT_LT(single.end.tokens, static_cast<int32_t>(ids_.size()));
  for (int round = 0; round < 20; ++round) {
    const FinishedAnswer other = answer(30, random);
    EXPECT_EQ(other.end.tokens, single.end.tokens);
    EXPECT_EQ(other.tokens.size(), single.tokens.size());
    EXPECT_EQ(static_cast<int32_t>(other.tokens.size()), other.end.tokens);
  }
}

// Tokens without text, such as half a character, wait for the text they begin: sums over events are right.
TEST_F(AnswerTextTest, CountsArriveWithTheTextTheyBegin) {
  generation_.split_reasoning = false;
  AnswerText text(model_, generation_, 0, false, false);
  const std::vector<int32_t> ids = tokenizer_.encode("\U0001F30A");
  ASSERT_GT(ids.size(), 1U);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    TokenChunk chunk;
    chunk.tokens = {ids[i]};
    EXPECT_TRUE(text.take(chunk).empty());
  }
  TokenChunk chunk;
  chunk.tokens = {ids.back()};
  const std::vector<AnswerDelta> deltas = text.take(chunk);
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].content, "\U0001F30A");
  EXPECT_EQ(deltas[0].n_tokens, static_cast<int32_t>(ids.size()));
}

TEST_F(AnswerTextTest, TokensSayWhetherTheTextHasThem) {
  std::mt19937 random(5);
  const int32_t start = *tokenizer_.token_id("<|im_start|>");
  const std::vector<int32_t> words = tokenizer_.encode("words");
  ids_ = words;
  ids_.insert(ids_.begin(), start);
  for (const bool skips : {true, false}) {
    generation_.skip_special_tokens = skips;
    const FinishedAnswer got = answer(3, random);
    ASSERT_EQ(got.tokens.size(), ids_.size());
    for (const TokenPiece& token : got.tokens) EXPECT_EQ(token.in_text, !skips || token.id != start);
    EXPECT_EQ(got.content, skips ? "words" : "<|im_start|>words");
  }
}

// Also where the model's own end would not: the text leaves the token out, what is looked through does not.
TEST_F(AnswerTextTest, SpecialTokensAreStopStrings) {
  const std::vector<int32_t> ids = tokenizer_.encode("one<|im_end|>\ntwo");
  for (const auto& [stop, content] : {std::pair{"<|im_end|>", "one"}, {"ne<|im_end|>\n", "o"}, {"\ntwo", "one"}}) {
    generation_.stop = {stop};
    generation_.ignore_eos = true;
    AnswerText text(model_, generation_, 0, false, false);
    FinishedAnswer out;
    TokenChunk chunk;
    chunk.tokens = ids;
    for (const AnswerDelta& delta : text.take(chunk)) append(out, delta);
    for (const AnswerDelta& delta : text.finish()) append(out, delta);
    EXPECT_TRUE(text.stopped()) << stop;
    EXPECT_EQ(text.stop_string(), stop);
    EXPECT_EQ(out.content, content);
  }
}

}  // namespace
}  // namespace ashlar::server
