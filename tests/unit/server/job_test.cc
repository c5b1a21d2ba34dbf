// SPDX-License-Identifier: Apache-2.0
// A request from its events to its body and its record, nearly always without an engine.

#include "server/service/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <random>

#include "base/clock.h"
#include "device/device.h"
#include "scenario/fake_decoder.h"
#include "unit/server/job_fixture.h"

namespace ashlar::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(JobTest, TokensBehindAStopStringAreNobodys) {
  std::mt19937 random(2);
  format_.generation.stop = {"STOP"};
  format_.generation.split_reasoning = false;
  const std::vector<int32_t> tokens = ids("One, two STOP and three and four");
  std::vector<Json> counts;
  for (const size_t most : {1, 2, 3, 20}) {
    const auto job = begin(Api::kGenerate);
    RequestStats stats;
    stats.generated_tokens = 70 + static_cast<int32_t>(most);  // until the engine heard of the stop
    run(*job, 0, tokens, most, random, {FinishReason::kCancelled, "", stats});
    const Json body = Json::parse(sent());
    EXPECT_EQ(body["text"], "One, two ");
    EXPECT_EQ(body["meta_info"]["finish_reason"]["type"], "stop");
    EXPECT_EQ(body["meta_info"]["completion_tokens"], record_.usage.completion_tokens);
    counts.push_back(body["meta_info"]["completion_tokens"]);
  }
  EXPECT_THAT(counts, ::testing::Each(counts.front()));
  EXPECT_LT(counts.front().get<size_t>(), tokens.size());
}

// As SGLang has it: a stop string by its text, a token by its id.
TEST_F(JobTest, WhatEndedAnAnswerIsMatched) {
  std::mt19937 random(4);
  format_.generation.stop = {"STOP"};
  const int32_t end_token = 2, stop_id = 77;
  model_.stop_ids = {end_token};
  format_.generation.stop_ids = {stop_id};
  for (const bool stream : {false, true}) {
    format_.generation.stream = stream;
    const auto reason = [&](const std::string& text, std::vector<int32_t> more, FinishReason ended) {
      std::vector<int32_t> tokens = ids(text);
      tokens.insert(tokens.end(), more.begin(), more.end());
      run(*begin(Api::kGenerate), 0, tokens, 3, random, {ended, "", {}});
      const std::string bytes = sent();
      const size_t last = bytes.rfind("\"finish_reason\":") + 16;
      return Json::parse(bytes.substr(last, bytes.find('}', last) - last + 1));
    };
    EXPECT_EQ(reason("One, two", {end_token}, FinishReason::kStop), Json::parse(R"({"type":"stop","matched":2})"));
    EXPECT_EQ(reason("One, two", {stop_id}, FinishReason::kStop), Json::parse(R"({"type":"stop","matched":77})"));
    EXPECT_EQ(reason("", {end_token}, FinishReason::kStop), Json::parse(R"({"type":"stop","matched":2})"));
    const Json by_text = Json::parse(R"({"type":"stop","matched":"STOP"})");
    EXPECT_EQ(reason("One STOP two", {}, FinishReason::kCancelled), by_text);
    EXPECT_EQ(reason("One STOP", {end_token}, FinishReason::kStop), by_text);  // the answer was over before the token
    EXPECT_EQ(reason("One, two", {}, FinishReason::kLength)["type"], "length");
  }
}

TEST_F(JobTest, EventsOfAStreamCountAllTokens) {
  std::mt19937 random(3);
  format_.generation.stream = true;
  format_.generation.stream_blocks = true;
  const std::vector<int32_t> tokens = ids("<think>Hm: \U0001F30A.</think>\n\nYes, \u4f60\u597d.\n\n");
  for (int round = 0; round < 40; ++round) {
    const auto job = begin(round % 2 == 0 ? Api::kChat : Api::kCompletions);
    run(*job, 0, tokens, 9, random, {FinishReason::kStop, "", {}});
    const std::string stream = sent();
    size_t sum = 0;
    for (size_t at = stream.find("\"block\":"); at != std::string::npos; at = stream.find("\"block\":", at + 1)) {
      sum += Json::parse(stream.substr(at + 8, stream.find('}', at) - at - 7))["tokens"].get<size_t>();
    }
    EXPECT_EQ(sum, tokens.size()) << stream;
    EXPECT_EQ(record_.usage.completion_tokens, static_cast<int32_t>(tokens.size()));
  }
}

// All events of such a stream would be a hundred times what its client may leave unread.
TEST_F(JobTest, EventsThatRepeatTheAnswerDoNotPileUp) {
  format_.generation.stream = true;
  format_.generation.split_reasoning = false;
  format_.generation.sampling.top_logprobs = 0;
  const auto job = begin(Api::kGenerate);
  constexpr int kTokens = 4000;
  TokenChunk chunk;
  chunk.tokens = {ids("a").front()};
  chunk.logprobs.resize(1);
  size_t most = 0;
  for (int i = 0; i < kTokens; ++i) {
    job->on_tokens(0, chunk);
    job->on_pause();
    most = std::max(most, core_->backlog());
  }
  EXPECT_LT(most, size_t{600} << 10);
  job->on_end(0, {FinishReason::kLength, "", {}});
  const std::string stream = sent();
  const size_t last = stream.rfind("data: {");
  ASSERT_NE(last, std::string::npos);
  const Json event = Json::parse(stream.substr(last + 6, stream.find("\n\n", last) - last - 6));
  EXPECT_EQ(event["text"], std::string(kTokens, 'a'));
  EXPECT_EQ(event["meta_info"]["output_token_logprobs"].size(), static_cast<size_t>(kTokens));
  EXPECT_EQ(record_.status, 200);
}

TEST_F(JobTest, RecordsTellOfTheAnswerThatFailed) {
  std::mt19937 random(4);
  format_.generation.n = 3;
  const auto job = begin(Api::kChat);
  run(*job, 0, ids("good"), 3, random, {FinishReason::kStop, "", {}});
  run(*job, 1, ids("bad"), 3, random, {FinishReason::kError, "no memory left", {}});
  run(*job, 2, ids("good"), 3, random, {FinishReason::kStop, "", {}});
  EXPECT_THAT(sent(), HasSubstr("no memory left"));
  EXPECT_EQ(record_.status, 500);
  EXPECT_EQ(record_.finish, "error");
  EXPECT_EQ(record_.error, "no memory left");
}

TEST_F(JobTest, AConstraintThatNothingSatisfiesIsTheRequestsError) {
  std::mt19937 random(4);
  format_.generation.constraint.kind = Constraint::Kind::kRegex;
  format_.generation.constraint.param = "regex";
  run(*begin(Api::kChat), 0, ids("x"), 3, random, {FinishReason::kError, "nothing fits", {}, true});
  EXPECT_THAT(sent(), ::testing::AllOf(HasSubstr("nothing fits"), HasSubstr(R"("param":"regex")")));
  EXPECT_EQ(record_.status, 400);
  EXPECT_EQ(record_.finish, "error");
}

TEST_F(JobTest, RecordsNameTheUser) {
  std::mt19937 random(12);
  format_.generation.user = "some\nbody" + std::string(10000, '!');
  run(*begin(Api::kChat), 0, ids("good"), 3, random, {FinishReason::kStop, "", {}});
  EXPECT_THAT(record_.user, ::testing::StartsWith("some?body!!"));
  EXPECT_LT(record_.user.size(), 300U);
}

TEST_F(JobTest, RecordsTellOfTimeouts) {
  std::mt19937 random(5);
  const auto job = begin(Api::kChat);
  job->time_out();
  run(*job, 0, ids("too"), 3, random, {FinishReason::kCancelled, "", {}});
  EXPECT_EQ(record_.status, 504);
  EXPECT_THAT(record_.error, HasSubstr("longer than this server allows"));
}

TEST_F(JobTest, RecordsTellOfTheAnswerThatWasCut) {
  std::mt19937 random(5);
  format_.generation.n = 3;
  const auto job = begin(Api::kChat);
  run(*job, 0, ids("good"), 3, random, {FinishReason::kStop, "", {}});
  job->time_out();
  run(*job, 1, ids("too"), 3, random, {FinishReason::kCancelled, "", {}});
  run(*job, 2, ids("good"), 3, random, {FinishReason::kLength, "", {}});
  EXPECT_EQ(record_.status, 504);
  EXPECT_EQ(record_.finish, "cancelled");
}

TEST_F(JobTest, AnAnswerCutByTheServersEndSaysSo) {
  std::mt19937 random(8);
  for (const bool stream : {false, true}) {
    format_.generation.stream = stream;
    for (const Api api : {Api::kChat, Api::kCompletions, Api::kResponses, Api::kMessages, Api::kGenerate}) {
      const auto job = begin(api);
      job->shut_down();
      run(*job, 0, ids("some words"), 3, random, {FinishReason::kCancelled, "", {}});
      const std::string reply = sent();
      EXPECT_THAT(reply, HasSubstr("shutting down"));
      for (const char* whole : {"\"length\"", "\"max_tokens\"", "incomplete_details\":{"}) {
        EXPECT_THAT(reply, ::testing::Not(HasSubstr(whole))) << whole;
      }
      EXPECT_EQ(record_.status, 503);
    }
    // One that was whole before is not touched.
    const auto job = begin(Api::kChat);
    job->shut_down();
    run(*job, 0, ids("some words"), 3, random, {FinishReason::kStop, "", {}});
    EXPECT_THAT(sent(), ::testing::Not(HasSubstr("shutting down")));
    EXPECT_EQ(record_.status, 200);
  }
}

TEST_F(JobTest, StreamsTellOfAnErrorOnce) {
  std::mt19937 random(9);
  format_.generation.stream = true;
  for (const Api api : {Api::kChat, Api::kCompletions, Api::kResponses, Api::kMessages, Api::kGenerate}) {
    const auto job = begin(api);
    run(*job, 0, ids("bad"), 3, random, {FinishReason::kError, "no memory left", {}});
    const std::string reply = sent();
    const size_t first = reply.find("no memory left");
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(reply.find("no memory left", first + 1), std::string::npos) << reply;
  }
}

// Its decoder does nothing until it may.
struct HeldEngine {
  explicit HeldEngine(Ops& ops) {
    auto held = std::make_unique<testing::FakeDecoder>(2, 64);
    decoder = held.get();
    decoder->allow(0);
    EngineOptions options;
    options.kv_pages = 16;
    engine = std::make_unique<Engine>(ops, std::move(held), options);
    delivery->start();
  }
  ~HeldEngine() {
    decoder->allow(INT32_MAX);
    engine.reset();
    delivery->stop();
  }
  testing::FakeDecoder* decoder;
  std::unique_ptr<Engine> engine;
  const std::shared_ptr<Delivery> delivery = std::make_shared<Delivery>([] {});
};

TEST_F(JobTest, AStreamThatWaitsShowsSignsOfLife) {
  const auto ops = make_device("ref", {});
  format_.generation.stream = true;
  constexpr int64_t kSecond = 1'000'000'000;
  for (const Api api : {Api::kChat, Api::kCompletions, Api::kResponses, Api::kMessages, Api::kGenerate}) {
    HeldEngine held(*ops);
    const auto job = begin(api, held.engine.get(), held.delivery.get());  // it came at time 0
    job->on_tick(9 * kSecond);
    EXPECT_EQ(sent(), "") << "a job that is not started belongs to its worker";
    job->start();
    job->on_tick(2 * kSecond);
    EXPECT_EQ(sent(), "");
    job->on_tick(3 * kSecond);
    const std::string first = sent();
    const std::string sign = api == Api::kMessages ? "event: ping\ndata: {\"type\":\"ping\"}\n\n" : ": keep-alive\n\n";
    EXPECT_THAT(first, HasSubstr(sign));
    if (api == Api::kMessages) {
      EXPECT_LT(first.find("message_start"), first.find("ping"));
    }
    const int64_t last = now_ns();  // what was sent is timed by the clock
    job->on_tick(last + 4 * kSecond);
    EXPECT_EQ(sent(), "");
    job->on_tick(last + 6 * kSecond);
    EXPECT_THAT(sent(), HasSubstr(sign));
    EXPECT_EQ(sent(), "");
    const int64_t much_later = last + 1000 * kSecond;
    job->on_tick(much_later);
    const size_t backlog = core_->backlog();
    EXPECT_GT(backlog, 0U);
    job->on_tick(much_later + 1000 * kSecond);
    EXPECT_EQ(core_->backlog(), backlog) << "who reads nothing needs no further signs";
    job->cancel();
    held.decoder->allow(INT32_MAX);
    EXPECT_EQ(recorded_.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  }
}

TEST_F(JobTest, WhatFailsBeforeAStreamHasBegunHasItsOwnStatus) {
  std::mt19937 random(13);
  format_.generation.stream = true;
  for (const Api api : {Api::kChat, Api::kCompletions, Api::kResponses, Api::kMessages, Api::kGenerate}) {
    const auto head = [&] {
      const std::string bytes = core_->take(true).bytes;
      return std::string(std::string_view(bytes).substr(0, std::string_view(bytes).find("\r\n")));
    };
    run(*begin(api), 0, {}, 3, random, {FinishReason::kError, "no memory left", {}});
    EXPECT_THAT(head(), ::testing::StartsWith("HTTP/1.1 500"));
    const auto late = begin(api);
    late->time_out();
    run(*late, 0, {}, 3, random, {FinishReason::kCancelled, "", {}});
    EXPECT_THAT(head(), ::testing::StartsWith("HTTP/1.1 504"));
    run(*begin(api), 0, ids("One"), 3, random, {FinishReason::kError, "no memory left", {}});
    EXPECT_THAT(head(), ::testing::StartsWith("HTTP/1.1 200"));
  }
}

TEST_F(JobTest, AStopStringInACallLeavesNoWholeCall) {
  std::mt19937 random(10);
  format_.generation.tool_choice = ToolChoice::kAuto;
  format_.generation.stop = {"\"b\""};
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": 1, "b": 2}}</tool_call>)";
  run(*begin(Api::kChat), 0, ids(call), 3, random, {FinishReason::kCancelled, "", {}});
  EXPECT_EQ(Json::parse(sent())["choices"][0]["finish_reason"], "stop");
  run(*begin(Api::kMessages), 0, ids(call), 3, random, {FinishReason::kCancelled, "", {}});
  const Json message = Json::parse(sent());
  EXPECT_EQ(message["stop_reason"], "stop_sequence");
  EXPECT_EQ(message["stop_sequence"], "\"b\"");
  format_.generation.stop = {"Done"};  // after it
  run(*begin(Api::kChat), 0, ids(call + " Done"), 3, random, {FinishReason::kCancelled, "", {}});
  EXPECT_EQ(Json::parse(sent())["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(JobTest, ReasoningIsLeftOutOnRequest) {
  std::mt19937 random(11);
  format_.generation.show_reasoning = false;
  const std::vector<int32_t> tokens = ids("<think>Hm.</think>\n\nYes.");
  run(*begin(Api::kChat), 0, tokens, 3, random, {FinishReason::kStop, "", {}});
  const Json body = Json::parse(sent());
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Yes.");
  EXPECT_FALSE(body["choices"][0]["message"].contains("reasoning_content"));
  EXPECT_EQ(body["usage"]["completion_tokens"], tokens.size());
  format_.generation.stream = true;
  run(*begin(Api::kChat), 0, tokens, 3, random, {FinishReason::kStop, "", {}});
  const std::string stream = sent();
  EXPECT_THAT(stream, ::testing::Not(HasSubstr("reasoning_content")));
  EXPECT_THAT(stream, ::testing::Not(HasSubstr("Hm")));
}

TEST_F(JobTest, RecordsHoldCalls) {
  std::mt19937 random(6);
  format_.generation.tool_choice = ToolChoice::kAuto;
  const std::string text = R"(Look: <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> Done.)";
  const auto job = begin(Api::kChat);
  run(*job, 0, ids(text), 3, random, {FinishReason::kStop, "", {}});
  EXPECT_THAT(record_.texts, ElementsAre(R"(Look:<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> Done.)"));
}

TEST_F(JobTest, BareCallsReachEveryApi) {
  std::mt19937 random(6);
  const ChatTemplate taught = ChatTemplate::from_source(R"("parameters": {{ call.arguments }})", "t");
  model_.chat_template = &taught;
  ChatPrompt prompt;
  prompt.tools = Json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  format_.generation.prompts = {prompt};
  format_.generation.tool_choice = ToolChoice::kAuto;
  std::vector<int32_t> tokens = ids(R"(<|python_tag|>{"name": "f", "parameters": {"a": 1}})");
  tokens.insert(tokens.begin(), *tokenizer_.token_id("<|mask|>"));  // as where the tag is special
  for (const auto& [api, word] : {std::pair{Api::kChat, R"("finish_reason":"tool_calls")"},
                                  {Api::kResponses, R"("arguments":"{\"a\": 1}")"},
                                  {Api::kMessages, R"("input":{"a":1})"}}) {
    run(*begin(api), 0, tokens, 3, random, {FinishReason::kStop, "", {}});
    EXPECT_THAT(sent(), ::testing::AllOf(HasSubstr(word), ::testing::Not(HasSubstr("python_tag"))));
  }
}

TEST_F(JobTest, WhatBreaksEndsWithAnError) {
  std::mt19937 random(7);
  for (const bool stream : {false, true}) {
    format_.generation.stream = stream;
    const auto job = begin(Api::kChat);
    job->on_failure("std::bad_alloc");
    run(*job, 0, ids("lost"), 3, random, {FinishReason::kCancelled, "", {}});
    const std::string reply = sent();
    EXPECT_THAT(reply, HasSubstr("std::bad_alloc"));
    EXPECT_THAT(reply, ::testing::Not(HasSubstr("lost")));
    EXPECT_EQ(record_.status, 500);
  }
}

// Those before it are running then, and admission has counted all.
TEST_F(JobTest, AnAnswerThatCouldNotBeSubmittedEndsTheRequest) {
  const auto ops = make_device("ref", {});
  format_.generation.n = 3;
  for (int32_t n = 0; n < 3; ++n) {
    auto decoder = std::make_unique<testing::FakeDecoder>(2, 64);
    testing::FakeDecoder& fake = *decoder;
    EngineOptions options;
    options.kv_pages = 16;
    Engine engine(*ops, std::move(decoder), options);
    const auto delivery = std::make_shared<Delivery>([] {});
    delivery->start();
    const auto job = begin(Api::kCompletions, &engine, delivery.get());
    fake.fail_at_request(n);
    job->start();
    EXPECT_EQ(recorded_.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
    delivery->stop();
    EXPECT_EQ(record_.status, 500);
    EXPECT_THAT(sent(), HasSubstr("out of memory"));
  }
}

}  // namespace
}  // namespace ashlar::server
