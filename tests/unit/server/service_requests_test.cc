// SPDX-License-Identifier: Apache-2.0
// What the service makes of requests as a whole: their seeds, and what becomes of those it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/api/format/answer_schemas.h"
#include "server/api/openapi.h"
#include "unit/server/service_harness.h"
#include "unit/text/grammar/schema_checker.h"

namespace ashlar::server::test {
namespace {

TEST(ServiceRequests, PromptsWithoutASeedDrawTheirOwn) {
  ServiceHarness harness;
  ASSERT_EQ(harness.ask("/v1/completions", R"({"prompt":[[1,2],[1,2],[1,2]],"n":2,"max_tokens":1})").status, 200);
  ASSERT_EQ(harness.ask("/generate", R"({"input_ids":[[1,2],[1,2]],"sampling_params":{"max_new_tokens":1}})").status,
            200);
  const std::vector<uint64_t> seeds = harness.decoder().seeds();
  ASSERT_EQ(seeds.size(), 8U);
  EXPECT_EQ(std::set<uint64_t>(seeds.begin(), seeds.end()).size(), 8U);
}

// The tokens of an answer do not depend on what else its request asks.
TEST(ServiceRequests, AGivenSeedIsThatOfEachPrompt) {
  ServiceHarness harness;
  ASSERT_EQ(harness.ask("/v1/completions", R"({"prompt":[[1,2],[3]],"seed":5,"n":2,"max_tokens":1})").status, 200);
  std::vector<uint64_t> seeds = harness.decoder().seeds();
  const std::vector<uint64_t> expected = {choice_seed(5, 0), choice_seed(5, 1), choice_seed(5, 0), choice_seed(5, 1)};
  EXPECT_THAT(seeds, ::testing::UnorderedElementsAreArray(expected));
}

TEST(ServiceRequests, AStreamThatWaitsForItsTurnIsNotSilent) {
  ServiceOptions options;
  options.patience = {std::chrono::milliseconds(0), std::chrono::milliseconds(1)};
  test::ServiceHarness harness(options);
  harness.decoder().allow(0);
  test::Asked asked("/v1/chat/completions",
                    R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stream": true})");
  asked.begin(harness.router());
  std::string before;
  for (int signs = 0; signs < 3;) {
    before += asked.wait_for_more();
    signs = 0;
    for (size_t at = before.find("\n: "); at != std::string::npos; at = before.find("\n: ", at + 1)) ++signs;
  }
  harness.decoder().allow(INT32_MAX);
  while (!before.ends_with("\r\n0\r\n\r\n")) before += asked.wait_for_more();
  EXPECT_THAT(before, ::testing::HasSubstr("data: [DONE]\n\n"));
}

TEST(ServiceRequests, TokensAreWrittenAsJson) {
  ServiceHarness harness;
  const Tokenizer& tokenizer = *harness.service().model().tokenizer;
  for (const std::string text : {"x", "One \"two\" \\ \n\t\x01 \u00e9\U0001F30A"}) {
    for (const bool pieces : {false, true}) {
      const Json request = {{"prompt", text}, {"return_token_strs", pieces}};
      const Reply reply = harness.ask("/tokenize", request.dump());
      ASSERT_EQ(reply.status, 200) << reply.body;
      const Json body = Json::parse(reply.body);
      const auto ids = body["tokens"].get<std::vector<int32_t>>();
      EXPECT_EQ(tokenizer.decode(ids, false), text);
      Json expected = {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", 1024}};
      for (const int32_t id : ids) {
        if (pieces) expected["token_strs"].push_back(std::string(tokenizer.token_content(id)));
      }
      EXPECT_EQ(body, expected);
    }
  }
}

// A balancer must not take a busy server for a dead one, and a person wants to know.
TEST(ServiceRequests, HealthTellsOfABusyServerWithoutCallingItDead) {
  ServiceOptions options;
  options.memory = std::make_shared<MemoryBudget>(size_t{8} << 20);
  options.max_sequences = 1;
  options.max_waiting_requests = 0;
  ServiceHarness harness(options);
  const auto health = [&] {
    const Reply reply = harness.ask("/health", "", "GET");
    EXPECT_EQ(reply.status, 200);
    return Json::parse(reply.body);
  };
  EXPECT_EQ(health(), Json::parse(R"({"status": "ok"})"));
  {
    MemoryShare all(options.memory.get());
    ASSERT_TRUE(all.set(size_t{7} << 20));
    EXPECT_EQ(health()["status"], "ok");
    EXPECT_THAT(health()["busy"].get<std::string>(), ::testing::HasSubstr("memory"));
  }
  harness.decoder().allow(0);
  Asked running("/v1/completions", R"({"prompt": [1, 2], "max_tokens": 2})");
  running.begin(harness.router());
  while (!health().contains("busy")) std::this_thread::yield();
  EXPECT_THAT(health()["busy"].get<std::string>(), ::testing::HasSubstr("the queue is full"));
  harness.decoder().allow(INT32_MAX);
  EXPECT_EQ(running.end().status, 200);
  while (health().contains("busy")) std::this_thread::yield();
  harness.service().begin_drain();
  EXPECT_EQ(harness.ask("/health", "", "GET").status, 503);
}

TEST(ServiceRequests, ReadingALargeBodyTakesMemoryOfTheBudget) {
  ServiceOptions options;
  options.memory = std::make_shared<MemoryBudget>(size_t{16} << 20);
  ServiceHarness harness(options);
  const std::string small = R"({"prompt": "x"})";
  const std::string large = small + std::string((size_t{1} << 20) + 1, ' ');
  EXPECT_EQ(harness.ask("/tokenize", large).status, 200);
  EXPECT_EQ(options.memory->used(), 0U);
  MemoryShare others(options.memory.get());
  ASSERT_TRUE(others.set(size_t{7} << 20));
  for (const char* path : {"/tokenize", "/v1/completions"}) EXPECT_EQ(harness.ask(path, large).status, 503) << path;
  EXPECT_EQ(harness.ask("/tokenize", small).status, 200);
  EXPECT_EQ(options.memory->used(), size_t{7} << 20);
}

/// A tokenizer may have tokens that were added without an embedding.
TEST(ServiceRequests, TokensWithoutAnEmbeddingAreRefusedByName) {
  ServiceHarness harness({}, 1);
  const Tokenizer& tokenizer = *harness.service().model().tokenizer;
  const int32_t last = tokenizer.vocab_size() - 1;
  const std::string text = tokenizer.decode({&last, 1}, false);
  ASSERT_EQ(tokenizer.encode(text), std::vector<int32_t>{last});
  const Json chat = {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 1}};
  for (const auto& [path, body] : {std::pair<std::string, Json>{"/v1/completions", {{"prompt", text}}},
                                   {"/v1/chat/completions", chat},
                                   {"/v1/messages", chat},
                                   {"/v1/responses", {{"input", text}}},
                                   {"/generate", {{"text", text}}}}) {
    const Reply reply = harness.ask(path, body.dump());
    EXPECT_EQ(reply.status, 400) << path << reply.body;
    EXPECT_THAT(reply.body, ::testing::HasSubstr("(id " + std::to_string(last) + "), which the model has no embedding"))
        << path;
  }
  EXPECT_EQ(harness.ask("/tokenize", Json{{"prompt", text}}.dump()).status, 200);
}

struct Refused {
  const char* path;
  const char* body;
  int status;
  const char* param;
};

TEST(ServiceRequests, WhatIsRefusedIsCountedAndReported) {
  std::vector<std::pair<int, std::string>> reported;
  ServiceOptions options;
  options.on_refusal = [&reported](const Refusal& refusal) { reported.emplace_back(refusal.status, refusal.param); };
  ServiceHarness harness(std::move(options));
  int count = 0;
  for (const auto& [path, body, status, param] :
       {Refused{"/v1/completions", R"({"prompt":"Hi","n":"x"})", 400, "n"},
        Refused{"/tokenize", R"({"prompt":"Hi","add_special_tokens":7})", 400, "add_special_tokens"},
        Refused{"/tokenize", R"({"prompt":"Hi","model":"other"})", 404, "model"}, Refused{"/tokenize", "{", 400, ""},
        Refused{"/detokenize", R"({"tokens":["a"]})", 400, "tokens[0]"},
        Refused{"/apply-template", R"({"messages":[{"role":"nobody"}]})", 400, "messages[0].role"},
        Refused{"/v1/messages/count_tokens", R"({"messages":7})", 400, "messages"}}) {
    EXPECT_EQ(harness.ask(path, body).status, status) << path;
    ASSERT_EQ(reported.size(), static_cast<size_t>(++count)) << path << body;
    EXPECT_EQ(reported.back(), std::pair(status, std::string(param))) << path;
    const std::string metrics = harness.service().metrics().write("m", {}, {}, 0);
    const std::string name = "ashlar:requests_refused_total{model_name=\"m\",why=\"wrong\"} ";
    EXPECT_EQ(std::stoi(metrics.substr(metrics.find(name) + name.size())), count) << path << body;
  }
}

TEST(ServiceRequests, FieldsWithoutEffectAreReportedOnce) {
  std::vector<std::string> ignored;
  ServiceOptions options;
  options.on_ignored_field = [&ignored](const std::string& field) { ignored.push_back(field); };
  ServiceHarness harness(std::move(options));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(harness.ask("/v1/completions", R"({"prompt":[1],"max_tokens":1,"ttl":60})").status, 200);
    EXPECT_EQ(harness.ask("/tokenize", R"({"prompt":"Hi","oops":false})").status, 200);
  }
  EXPECT_THAT(ignored, ::testing::ElementsAre("ttl", "oops"));
  for (int i = 0; i < 100; ++i) {
    harness.ask("/tokenize", R"({"prompt":"Hi","oops)" + std::to_string(i) + R"(":false})");
  }
  EXPECT_EQ(ignored.size(), 64U);
}

TEST(ServiceRequests, OllamasClientsAreAnsweredLineByLine) {
  ServiceHarness harness;
  const Reply streamed =
      harness.ask("/api/chat", R"({"model":"pebble-11m:latest","messages":[{"role":"user","content":"hi"}],
      "options":{"num_predict":3}})");
  EXPECT_EQ(streamed.status, 200);
  EXPECT_THAT(streamed.body, ::testing::HasSubstr("\"done\":true"));
  EXPECT_THAT(streamed.body, ::testing::Not(::testing::HasSubstr("data:")));
  const Reply whole = harness.ask("/api/generate", R"({"prompt":"hi","stream":false,"options":{"num_predict":3}})");
  EXPECT_EQ(Json::parse(whole.body)["done_reason"], "length");
  EXPECT_EQ(Json::parse(whole.body)["eval_count"], 3);
  const Reply loaded = harness.ask("/api/generate", R"({"model":"pebble-11m"})");
  EXPECT_EQ(Json::parse(loaded.body)["done_reason"], "load");
  for (const char* path : {"/api/chat", "/api/generate", "/api/show"}) {
    const Reply unknown = harness.ask(path, R"({"model":"other"})");
    EXPECT_EQ(unknown.status, 404) << path;
    EXPECT_TRUE(Json::parse(unknown.body)["error"].is_string()) << path;
  }
  EXPECT_EQ(harness.ask("/api/chat", "{").status, 400);
  EXPECT_EQ(harness.ask("/api/pull", R"({"model":"x"})").status, 404);
  const Json about = Json::parse(harness.ask("/api/show", R"({"name":"pebble-11m"})").body);
  EXPECT_EQ(about["capabilities"][0], "completion");
  const Json document = openapi_document({});
  grammar::testing::SchemaChecker checker(document);
  EXPECT_TRUE(checker.holds(schema_reference("OllamaModel"), about)) << about;
}

struct RefusedPrompt {
  const char* path;
  std::string body;
  const char* field;     ///< in which `body` has its prompt
  bool refusing = true;  ///< the template refuses it; otherwise it is too long
};

class RefusedPrompts : public ::testing::TestWithParam<RefusedPrompt> {};

const std::string kMessages = R"({"messages":[{"role":"user","content":"hi"}]})";
const std::string kLongText = '"' + std::string(20000, '!') + '"';

std::string long_ids() {
  std::string ids = "[1";
  for (int i = 0; i < 2000; ++i) ids += ",1";
  return ids + "]";
}

INSTANTIATE_TEST_SUITE_P(
    OfEachApi, RefusedPrompts,
    ::testing::Values(RefusedPrompt{"/v1/chat/completions", kMessages, "messages"},
                      RefusedPrompt{"/v1/messages", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1})",
                                    "messages"},
                      RefusedPrompt{"/v1/messages/count_tokens", kMessages, "messages"},
                      RefusedPrompt{"/v1/responses", R"({"input":"hi"})", "input"},
                      RefusedPrompt{"/v1/responses", R"({"input":[{"role":"user","content":"hi"}]})", "input"},
                      RefusedPrompt{"/v1/responses", R"({"input":)" + kLongText + "}", "input", false},
                      RefusedPrompt{"/api/chat", kMessages, "messages"},
                      RefusedPrompt{"/api/generate", R"({"prompt":"hi"})", "prompt"},
                      RefusedPrompt{"/api/generate", R"({"raw":true,"prompt":)" + kLongText + "}", "prompt", false},
                      RefusedPrompt{"/tokenize", kMessages, "messages"},
                      RefusedPrompt{"/apply-template", kMessages, "messages"},
                      RefusedPrompt{"/v1/completions", R"({"prompt":)" + kLongText + "}", "prompt", false},
                      RefusedPrompt{"/v1/completions", R"({"prompt":)" + long_ids() + "}", "prompt", false},
                      RefusedPrompt{"/generate", R"({"text":)" + kLongText + "}", "text", false},
                      RefusedPrompt{"/generate", R"({"input_ids":)" + long_ids() + "}", "input_ids", false}));

// Whatever API a prompt comes by: clients look for the field that they sent.
TEST_P(RefusedPrompts, NameTheFieldTheyCameIn) {
  std::vector<std::string> fields;
  ServiceOptions options;
  options.on_refusal = [&](const Refusal& refusal) { fields.push_back(refusal.param); };
  ServiceHarness harness(options, 0, GetParam().refusing);
  const Reply reply = harness.ask(GetParam().path, GetParam().body);
  EXPECT_EQ(reply.status, 400) << reply.body;
  EXPECT_THAT(fields, ::testing::ElementsAre(GetParam().field)) << reply.body;
}

}  // namespace
}  // namespace ashlar::server::test
