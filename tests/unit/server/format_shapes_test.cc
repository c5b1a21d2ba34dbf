// SPDX-License-Identifier: Apache-2.0
// Shapes that clients depend on, by hand; and samples for tests/tools/check_api_shapes.py, which holds them against the
// official clients' models: ASHLAR_API_SAMPLES names the folder they are written to.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "unit/server/format_samples.h"

namespace ashlar::server::test {
namespace {

FormatContext context_with_logprobs() {
  FormatContext context;
  context.id = "1";
  context.model = "m";
  context.generation.prompts = {TextPrompt{"p"}};
  context.generation.sampling.top_logprobs = 1;
  return context;
}

FinishedAnswer half_character() {
  FinishedAnswer answer;
  answer.content = "é";
  for (const char* bytes : {"\xC3", "\xA9"}) {
    TokenPiece piece{7, bytes, {}, {"\xC3"}};
    piece.logprobs.token = -0.5f;
    piece.logprobs.n_top = 1;
    piece.logprobs.top_values[0] = -0.25f;
    answer.tokens.push_back(piece);
  }
  return answer;
}

TEST(FormatShapes, HalfCharactersKeepTheirBytes) {
  const Json chat = Json::parse(make_format(Api::kChat, context_with_logprobs())->body({half_character()}, {}));
  EXPECT_EQ(
      chat["choices"][0]["logprobs"]["content"][0],
      Json::parse(
          R"({"token":"\ufffd","logprob":-0.5,"bytes":[195],"top_logprobs":[{"token":"\ufffd","logprob":-0.25,"bytes":[195]}]})"));
  const Json text = Json::parse(make_format(Api::kCompletions, context_with_logprobs())->body({half_character()}, {}));
  EXPECT_EQ(
      text["choices"][0]["logprobs"],
      Json::parse(
          R"({"tokens":["\ufffd","\ufffd"],"token_logprobs":[-0.5,-0.5],"top_logprobs":[{"\ufffd":-0.25},{"\ufffd":-0.25}],"text_offset":[0,1]})"));
}

TEST(FormatShapes, OffsetsAreThoseOfTheText) {
  FinishedAnswer answer;
  answer.content = "a\ufffd\ufffdb\u00e9";
  for (const auto& [bytes, in_text] : {std::pair{"a", true},
                                       {"<|im_start|>", false},
                                       {"\x80", true},
                                       {"\xE4\xBD", true},
                                       {"b", true},
                                       {"\u00e9", true}}) {
    answer.tokens.push_back({7, bytes, {}, {}});
    answer.tokens.back().in_text = in_text;
  }
  const auto format = make_format(Api::kCompletions, context_with_logprobs());
  const Json body = Json::parse(format->body({answer}, {}));
  EXPECT_EQ(body["choices"][0]["logprobs"]["text_offset"], Json({0, 1, 1, 2, 3, 4}));
}

TEST(FormatShapes, TokensOfBlocksHaveTheirPass) {
  FinishedAnswer answer = half_character();
  answer.tokens[0].step = 2;
  answer.tokens[1].step = 0;
  answer.end.stats.verify_steps = 4;
  answer.end.stats.blocks = 1;
  answer.end.stats.lengths = {0, 3, 1};
  answer.end.stats.unmasked_in_pass = {2, 3};
  answer.end.stats.prompt_done_ns = 1'000'000;
  answer.end.stats.first_token_ns = 2'000'000;
  answer.end.stats.finished_ns = 3'500'000;
  const auto body = [&](Api api) { return Json::parse(make_format(api, context_with_logprobs())->body({answer}, {})); };
  const Json figures = Json::parse(
      R"({"dllm":{"forwards":4,"tokens_per_forward":1.25,"blocks":1,"decided_per_forward":[0,3,1],"unmasked_in_pass":[2,3],
          "settled_per_forward":[0,3,1],"settled_in_pass":[2,3]},"decode_seconds":0.0025})");
  const Json chat = body(Api::kChat);
  EXPECT_EQ(chat["choices"][0]["logprobs"]["content"][0]["step"], 2);
  EXPECT_EQ(chat["choices"][0]["logprobs"]["content"][1]["step"], 0);
  EXPECT_EQ(chat["metrics"], figures);
  const Json text = body(Api::kCompletions);
  EXPECT_EQ(text["choices"][0]["logprobs"]["token_steps"], Json::parse("[2,0]"));
  EXPECT_EQ(body(Api::kResponses)["output"][0]["content"][0]["logprobs"][0]["step"], 2);
  const Json meta = body(Api::kGenerate)["meta_info"];
  EXPECT_EQ(meta["output_token_steps"], Json::parse("[2,0]"));
  EXPECT_EQ(meta["metrics"], figures);
  EXPECT_FALSE(meta.contains("spec_verify_ct"));
  FormatContext context;
  context.generation.stream_blocks = true;
  AnswerDelta delta;
  delta.content = "x";
  delta.n_tokens = 1;
  delta.step = 3;
  delta.at = 5;
  const std::string block = R"("block":{"tokens":1,"drafted":0,"step":3,"at":5})";
  for (const Api api : {Api::kChat, Api::kCompletions})
    EXPECT_NE(make_format(api, context)->delta(delta).find(block), std::string::npos);
}

// From the first token of any answer to the end of the last: one that ended before its first token counts in neither.
TEST(FormatShapes, TheTimeOfDecodingIsThatOfAllAnswersTogether) {
  std::vector<FinishedAnswer> answers(3, half_character());
  const int64_t first[] = {5'000'000, 0, 4'000'000}, end[] = {9'000'000, 20'000, 12'250'000};
  for (int32_t i = 0; i < 3; ++i) {
    answers[static_cast<size_t>(i)].end.index = i;
    answers[static_cast<size_t>(i)].end.stats.first_token_ns = first[i];
    answers[static_cast<size_t>(i)].end.stats.finished_ns = end[i];
  }
  FormatContext context = context_with_logprobs();
  context.generation.n = 3;
  for (const Api api : {Api::kChat, Api::kCompletions}) {
    const Json body = Json::parse(make_format(api, context)->body(answers, {}));
    EXPECT_EQ(body["metrics"]["decode_seconds"], 0.00825);
    EXPECT_TRUE(body["metrics"].contains("speculative_decoding"));
  }
}

TEST(FormatShapes, BlocksAreToldOnRequestOnly) {
  AnswerDelta held_back;  // a token without text, such as half a character
  held_back.n_tokens = 1;
  held_back.n_drafted = 1;
  for (const Api api : {Api::kChat, Api::kCompletions}) {
    FormatContext context;
    EXPECT_EQ(make_format(api, context)->delta(held_back), "");
    context.generation.stream_blocks = true;
    const std::string chunk = make_format(api, context)->delta(held_back);
    EXPECT_NE(chunk.find(R"("block":{"tokens":1,"drafted":1})"), std::string::npos) << chunk;
    EXPECT_EQ(make_format(api, context)->delta({}), "");
  }
}

// Every event repeats the answer so far: one for each token would be quadratic work for what none but the newest says.
TEST(FormatShapes, ChunksHaveTheUsageSoFarOnRequest) {
  for (const Api api : {Api::kChat, Api::kCompletions}) {
    FormatContext context;
    context.generation.prompts = {TextPrompt{"p"}};
    context.generation.n = 2;
    context.generation.usage_in_chunks = true;
    const auto format = make_format(api, context);
    std::string stream = format->begin({11, 0, 0, 0});
    stream += format->delta({.index = 1, .reasoning = "a", .n_tokens = 3});
    stream += format->delta({.index = 0, .content = "b", .n_tokens = 1});
    stream += format->delta({.index = 1, .content = "c", .n_tokens = 2});
    AnswerEnd end;
    end.index = 1;
    end.tokens = 6;
    stream += format->end(end);
    std::vector<std::string> found;
    for (size_t at = stream.find("{\"id\""); at != std::string::npos; at = stream.find("{\"id\"", at + 1)) {
      const Json chunk = Json::parse(stream.substr(at, stream.find("\n\n", at) - at));
      const Json& usage = chunk["usage"];
      EXPECT_EQ(usage["prompt_tokens"], 11);
      if (usage["completion_tokens"] == 0) continue;
      found.push_back(chunk["choices"][0]["index"].dump() + ":" + usage["completion_tokens"].dump() + "/" +
                      usage["completion_tokens_details"]["reasoning_tokens"].dump());
    }
    EXPECT_EQ(found, (std::vector<std::string>{"1:3/3", "0:1/0", "1:5/3", "1:6/3"}));
  }
}

TEST(FormatShapes, GenerateWritesTheNewestEventOnly) {
  FormatContext context = context_with_logprobs();
  context.generation.n = 2;
  const auto format = make_format(Api::kGenerate, context);
  const auto delta = [&](int32_t index, const char* text) {
    AnswerDelta out{.index = index, .content = text, .n_tokens = 1};
    out.tokens.push_back({7, text, {}, {}});
    EXPECT_EQ(format->delta(out), "");
  };
  delta(0, "a\"");
  delta(1, "x");
  delta(0, "\xC3\xA9");
  const std::string first = format->pause();
  const auto json = [](const std::string& stream, size_t from) {
    return Json::parse(stream.substr(from + 6, stream.find("\n\n", from) - from - 6));
  };
  const size_t second = first.find("data: ", 1);
  EXPECT_EQ(first.find("data: ", second + 1), std::string::npos);
  EXPECT_EQ(json(first, 0)["text"], "a\"\xC3\xA9");
  EXPECT_EQ(json(first, 0)["meta_info"]["completion_tokens"], 2);
  EXPECT_EQ(json(first, 0)["meta_info"]["output_token_logprobs"].size(), 2U);
  EXPECT_EQ(json(first, second)["index"], 1);
  EXPECT_EQ(format->pause(), "");
  delta(1, "y");
  AnswerEnd end;
  end.index = 1;
  end.tokens = 2;
  EXPECT_EQ(json(format->end(end), 0)["text"], "xy");
  EXPECT_EQ(format->pause(), "");
}

TEST(FormatShapes, GenerateCountsWhatTheClientGot) {
  FinishedAnswer answer;
  answer.content = "up to the stop";
  answer.end.stop_string = "STOP";
  answer.end.tokens = 4;
  answer.end.stats.generated_tokens = 9;  // what the engine made before it heard of the stop
  const auto format = make_format(Api::kGenerate, context_with_logprobs());
  EXPECT_EQ(Json::parse(format->body({answer}, {}))["meta_info"]["completion_tokens"], 4);
}

TEST(FormatShapes, FirstDeltaOfACallHasItsName) {
  const auto format = make_format(Api::kChat, context_with_logprobs());
  AnswerDelta delta;
  delta.tool_calls = {{1, "call_a", "f", ""}};
  const std::string first = format->delta(delta);
  EXPECT_NE(first.find(
                R"("tool_calls":[{"index":1,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}])"),
            std::string::npos)
      << first;
  delta.tool_calls = {{1, "", "", "{}"}};
  const std::string second = format->delta(delta);
  EXPECT_NE(second.find(R"("tool_calls":[{"index":1,"function":{"arguments":"{}"}}])"), std::string::npos) << second;
}

TEST(FormatShapes, Errors) {
  const ApiError error{429, "rate_limit_error", "full", "", "queue_full", 3};
  EXPECT_EQ(error_body(Api::kChat, error),
            R"({"error":{"message":"full","type":"rate_limit_error","param":null,"code":"queue_full"}})");
  EXPECT_EQ(error_body(Api::kMessages, error),
            R"({"type":"error","error":{"type":"rate_limit_error","message":"full"}})");
  const std::string chat = make_format(Api::kChat, {})->failed(error);
  EXPECT_EQ(chat, "data: " + error_body(Api::kChat, error) + "\n\ndata: [DONE]\n\n");
  EXPECT_EQ(make_format(Api::kMessages, {})->failed(error),
            "event: error\ndata: " + error_body(Api::kMessages, error) + "\n\n");
  const std::string responses = make_format(Api::kResponses, {})->failed(error);
  EXPECT_EQ(responses.rfind("event: response.failed\n", 0), 0u);
}

TEST(FormatShapes, BrokenArgumentsAreShown) {
  FinishedAnswer answer;
  answer.tool_calls = {{0, "a", "f", "{oops"}};
  const Json body = Json::parse(make_format(Api::kMessages, {})->body({answer}, {}));
  EXPECT_EQ(body["content"][0]["input"], Json::parse(R"({"raw_arguments":"{oops"})"));
}

TEST(FormatShapes, WriteSamples) {
  const char* folder = std::getenv("ASHLAR_API_SAMPLES");
  if (folder == nullptr) GTEST_SKIP() << "ASHLAR_API_SAMPLES is not set";
  const char* names[] = {"chat", "completions", "responses", "messages", "generate", "ollamachat", "ollamagenerate"};
  for (int api = 0; api < kApis; ++api) {
    std::mt19937 random(99);
    for (int i = 0; i < 40; ++i) {
      const Sample sample = make_sample(static_cast<Api>(api), random);
      const std::string stem = std::string(folder) + "/" + names[api] + "_" + std::to_string(i);
      std::ofstream(stem + ".json") << sample.body;
      std::ofstream(stem + ".sse") << sample.stream;
      ASSERT_TRUE(std::ifstream(stem + ".sse").good()) << stem;
    }
  }
}

TEST(FormatShapes, OnlyTokensOfTheMessageStandBesideIt) {
  FormatContext context = context_with_logprobs();
  const auto with_token = [](int32_t id, AnswerDelta delta) {
    delta.tokens.push_back({id, std::to_string(id), {}, {}});
    return delta;
  };
  const ToolCallDelta call{0, "call_1", "f", "{}"};
  const std::vector<AnswerDelta> deltas = {
      with_token(1, {}), with_token(2, {.reasoning = "hm"}),    with_token(3, {}), with_token(4, {.content = "a"}),
      with_token(5, {}), with_token(6, {.tool_calls = {call}}), with_token(7, {}), with_token(8, {.content = "b"})};
  FinishedAnswer answer;
  for (const AnswerDelta& delta : deltas) append(answer, delta);
  const Json output = Json::parse(make_format(Api::kResponses, context)->body({answer}, {}))["output"];
  ASSERT_EQ(output.size(), 4U);
  const auto tokens = [](const Json& item) {
    std::string out;
    for (const Json& entry : item["content"][0]["logprobs"]) out += entry["token"].get<std::string>();
    return out;
  };
  EXPECT_EQ(tokens(output[1]), "45");
  EXPECT_EQ(tokens(output[3]), "8");
  const Json chat = Json::parse(make_format(Api::kChat, context)->body({answer}, {}));
  EXPECT_EQ(chat["choices"][0]["logprobs"]["content"].size(), deltas.size());
}

// A body lists its items in the order in which a stream has them, whatever that was.
TEST(FormatShapes, ItemsKeepTheOrderOfTheAnswer) {
  const ToolCallDelta call{0, "call_1", "f", "{}"};
  const std::vector<AnswerDelta> deltas = {
      {0, "", "", {call}, {}, 1, 0}, {0, "", "cut ", {}, {}, 1, 0}, {0, "", "off", {}, {}, 1, 0}};
  for (const Api api : {Api::kResponses, Api::kMessages}) {
    FinishedAnswer answer;
    for (const AnswerDelta& delta : deltas) append(answer, delta);
    EXPECT_EQ(answer.parts.size(), 2U);
    const Json body = Json::parse(make_format(api, {})->body({answer}, {}));
    const Json& items = body[api == Api::kResponses ? "output" : "content"];
    ASSERT_EQ(items.size(), 2U);
    EXPECT_EQ(items[0]["name"], "f");
    EXPECT_EQ(api == Api::kResponses ? items[1]["content"][0]["text"] : items[1]["text"], "cut off");
  }
}

}  // namespace
}  // namespace ashlar::server::test
