// SPDX-License-Identifier: Apache-2.0
#include "train/data/document_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "generate/chat_prompt.h"
#include "temp_folder.h"
#include "text/tokenizer/model_tokens.h"
#include "train/data/document_set.h"

namespace ashlar {
namespace {

constexpr int32_t kVocab = 8192;

class DocumentEncoding : public ::testing::Test {
 protected:
  static std::filesystem::path folder() { return std::filesystem::path(ASHLAR_SOURCE_DIR) / "models" / "pebble-11m"; }
  DocumentEncoder encoder(const ChatTemplate* form) const {
    return {tokenizer_, form, stop_ids_of(folder(), tokenizer_, {2}, kVocab), kVocab};
  }
  /// The bytes that the document's tokens stand for; which of them are learnt.
  std::string bytes(const EncodedDocument& document, std::vector<bool>* learnt = nullptr) const {
    std::string text;
    for (size_t i = 0; i < document.ids.size(); ++i) {
      text += std::string(tokenizer_.piece_bytes(document.ids[i]));
      if (learnt != nullptr) learnt->resize(text.size(), document.supervised[i] != 0);
    }
    return text;
  }
  std::string learnt_text(const EncodedDocument& document) const {
    std::string text;
    for (size_t i = 0; i < document.ids.size(); ++i) {
      if (document.supervised[i] != 0) text += std::string(tokenizer_.piece_bytes(document.ids[i]));
    }
    return text;
  }

  Tokenizer tokenizer_ = Tokenizer::from_model(folder());
  std::optional<ChatTemplate> form_ = ChatTemplate::from_model(folder());
};

// The rule written down by bytes: ChatML put together by hand says where each answer begins and ends, and a token is
// learnt if all of its bytes are between.
TEST_F(DocumentEncoding, LearnsTheBytesOfAnswersAndTheEndOfTheirTurns) {
  const char* const kPieces[] = {"Hello",   " world", "\n", "\n\n", "<|im_end|>", "<|im_start|>assistant\n",
                                 "42",      " the ",  "é",  "\t",   "don't",      "  ",
                                 "<think>", "."};
  const char* const kRoles[] = {"user", "assistant", "system"};
  std::mt19937 random(3);
  const DocumentEncoder encode = encoder(&*form_);
  for (int round = 0; round < 200; ++round) {
    TrainingExample example;
    example.form = TrainingExample::Form::kConversation;
    example.messages = Json::array();
    std::string text;
    std::vector<std::pair<size_t, size_t>> answers;
    const size_t turns = 1 + random() % 6;
    for (size_t turn = 0; turn < turns; ++turn) {
      const std::string role = kRoles[turn == 0 ? random() % 3 : random() % 2];
      std::string content;
      for (size_t n = random() % 6; n > 0; --n) content += kPieces[random() % std::size(kPieces)];
      example.messages.push_back({{"role", role}, {"content", content}});
      text += "<|im_start|>" + role + "\n";
      const size_t begin = text.size();
      text += content + "<|im_end|>";
      if (role == "assistant") answers.emplace_back(begin, text.size());
      text += "\n";
    }
    const EncodedDocument document = encode.encode(example);
    ASSERT_EQ(bytes(document), text);
    EXPECT_EQ(document.lost_turns, 0) << text;
    size_t at = 0;
    for (size_t i = 0; i < document.ids.size(); ++i) {
      const size_t end = at + tokenizer_.piece_bytes(document.ids[i]).size();
      bool inside = false;
      for (const auto& [begin, finish] : answers) inside = inside || (at >= begin && end <= finish);
      EXPECT_EQ(document.supervised[i] != 0, inside) << "token " << i << " of " << text;
      at = end;
    }
  }
}

TEST_F(DocumentEncoding, WhatUsersWroteIsNoSpecialToken) {
  TrainingExample example;
  example.form = TrainingExample::Form::kPair;
  example.messages = parse_json(R"([{"role": "user", "content": "<|im_end|>"},
                                    {"role": "assistant", "content": "<|im_end|>"}])",
                                "test");
  const EncodedDocument document = encoder(&*form_).encode(example);
  EXPECT_EQ(std::count(document.ids.begin(), document.ids.end(), *tokenizer_.token_id("<|im_end|>")), 2);
  EXPECT_EQ(learnt_text(document), "<|im_end|><|im_end|>");
}

TEST_F(DocumentEncoding, TurnsEndWithTheConversationWhereTheTemplateHasNoStopToken) {
  const ChatTemplate plain = ChatTemplate::from_source(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}",
      "plain");
  TrainingExample example;
  example.form = TrainingExample::Form::kConversation;
  example.messages = parse_json(R"([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
      {"role": "user", "content": "three"}, {"role": "assistant", "content": "four"}])",
                                "test");
  const EncodedDocument document = encoder(&plain).encode(example);
  EXPECT_EQ(learnt_text(document), " two\n four\n");
  EXPECT_EQ(document.lost_turns, 0);
}

// Thinking on or off is a variable of the template: what is trained must be what is served.
TEST_F(DocumentEncoding, TemplatesSeeTheirVariables) {
  const ChatTemplate thinking = ChatTemplate::from_source(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n"
      "{% if m.role == 'assistant' and not enable_thinking %}<think></think>{% endif %}{{ m.content }}<|im_end|>"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
      "{% if not enable_thinking %}<think></think>{% endif %}{% endif %}",
      "thinking");
  const auto learnt = [&](const std::string& value) {
    return learnt_text(encoder(&thinking).encode(parse_example(
        R"({"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}],
            "chat_template_kwargs": {"enable_thinking": )" +
            value + "}}",
        "f:1")));
  };
  EXPECT_EQ(learnt("true"), "two<|im_end|>");
  EXPECT_EQ(learnt("false"), "two<|im_end|>");  // the template's own <think></think> belongs to the prompt
}

// A template that writes the first answer otherwise once there is another: where it stands cannot be known.
TEST_F(DocumentEncoding, CountsTurnsThatTheTemplateRewrites) {
  const ChatTemplate rewriting = ChatTemplate::from_source(
      "{{ messages | length }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
      "rewriting");
  TrainingExample example;
  example.form = TrainingExample::Form::kConversation;
  example.messages =
      parse_json(R"([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}])", "test");
  const EncodedDocument document = encoder(&rewriting).encode(example);
  EXPECT_EQ(document.lost_turns, 1);
  EXPECT_EQ(learnt_text(document), "");
}

TEST_F(DocumentEncoding, PairsAndTextsNeedNoTemplate) {
  const DocumentEncoder encode = encoder(nullptr);
  const EncodedDocument pair = encode.encode(parse_example(R"({"prompt": "Once upon", "response": " a time"})", "f:1"));
  EXPECT_EQ(bytes(pair), "Once upon a time<|im_end|>");
  EXPECT_EQ(learnt_text(pair), " a time<|im_end|>");
  const EncodedDocument text = encode.encode(parse_example(R"({"text": "Once upon a time"})", "f:1"));
  EXPECT_EQ(learnt_text(text), "Once upon a time");
  try {
    encode.encode(parse_example(R"({"messages": [{"role": "user", "content": "x"}]})", "f:9"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("f:9: is a conversation, and the model has no chat template"));
  }
}

TEST_F(DocumentEncoding, RefusesTokensThatTheModelLacks) {
  const DocumentEncoder encode = encoder(nullptr);
  EXPECT_EQ(encode.encode(parse_example(R"({"ids": [8191]})", "f:1")).ids.size(), 1u);
  try {
    encode.encode(parse_example(R"({"ids": [5, 8192]})", "f:4"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("f:4: has token id 8192; the model has 8192 tokens"));
  }
}

// A file of answers has those to each file of prompts one after another, of some perhaps none.
TEST_F(DocumentEncoding, PartsOfAFileWeighWhatTheyAreSaidTo) {
  const TempFolder work;
  std::ofstream(work / "answers.jsonl") << R"({"ids": [5, 6]})"
                                           "\n"
                                           R"({"ids": [7, 8]})"
                                           "\n"
                                           R"({"ids": [9, 10]})"
                                           "\n";
  const std::vector<DataPart> parts = {{0, 0.5}, {1, 2}, {1, 3}, {3, 4}};
  const DocumentSet documents = read_documents(work / "answers.jsonl", parts, encoder(nullptr), 16);
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(documents.weight(0), 2);
  EXPECT_EQ(documents.weight(1), 4);
  EXPECT_EQ(documents.weight(2), 4);
}

// What the model is asked is what serving would make of the conversation without the assistant's last turn.
TEST_F(DocumentEncoding, PromptsEndWhereTheAnswerWouldBegin) {
  const DocumentEncoder encode = encoder(&*form_), plain = encoder(nullptr);
  const auto prompt = [](const DocumentEncoder& with, const std::string& line) {
    return with.encode_prompt(parse_example(line, "f:1", Responses::kOptional));
  };
  const auto served = [&](const std::string& messages) {
    Conversation conversation;
    conversation.messages = parse_json(messages, "test");
    return encode_conversation(tokenizer_, *form_, conversation);
  };
  const std::string user = R"({"role": "user", "content": "Hi"})", answer = R"({"role": "assistant", "content": "Yo"})";
  const std::vector<int32_t> asked = served("[" + user + "]");
  EXPECT_EQ(prompt(encode, R"({"messages": [)" + user + "]}"), asked);
  EXPECT_EQ(prompt(encode, R"({"messages": [)" + user + "," + answer + "]}"), asked);
  EXPECT_EQ(prompt(encode, R"({"prompt": "Hi"})"), asked);
  EXPECT_EQ(prompt(encode, R"({"prompt": "Hi", "response": "Yo"})"), asked);
  EXPECT_EQ(prompt(encode, R"({"messages": [)" + user + "," + answer + "," + user + "]}"),
            served("[" + user + "," + answer + "," + user + "]"));
  EXPECT_EQ(prompt(encode, R"({"messages": [)" + answer + "]}"), std::vector<int32_t>());
  EXPECT_EQ(prompt(encode, R"({"ids": [1, 2, 3, 4, 5], "mask": [0, 1, 0, 1, 1]})"), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(prompt(encode, R"({"ids": [1, 2]})"), std::vector<int32_t>());
  EXPECT_EQ(prompt(plain, R"({"prompt": "Hi"})"), tokenizer_.encode("Hi", {.add_special_tokens = true}));
  EXPECT_THROW(prompt(plain, R"({"messages": [)" + user + "]}"), Error);
  EXPECT_THROW(prompt(encode, R"({"ids": [1, 9000, 2], "mask": [0, 0, 1]})"), Error);
}

TEST(PromptOfADocument, EndsBeforeTheLastTurnThatIsLearnt) {
  const auto length = [](std::vector<uint8_t> supervised) { return prompt_length(supervised); };
  EXPECT_EQ(length({0, 0, 1, 1}), 2u);
  EXPECT_EQ(length({0, 1, 0, 0, 1, 1, 0}), 4u);
  EXPECT_EQ(length({1, 1, 1, 1, 1, 1, 1, 1}), 2u);
  EXPECT_EQ(length({0, 0}), std::nullopt);
  EXPECT_EQ(length({1, 1, 1}), std::nullopt);
}

}  // namespace
}  // namespace ashlar
