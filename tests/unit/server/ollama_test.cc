// SPDX-License-Identifier: Apache-2.0
// Ollama's chat and generate: what is made of requests, and of answers.

#include <gtest/gtest.h>

#include "unit/server/api_support.h"
#include "unit/server/format_samples.h"

namespace ashlar::server::test {
namespace {

Generation chat(const std::string& members) {
  const auto parsed = parse_ollama_chat(with(Endpoint::kOllamaChat, members), {});
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed.value() : Generation{};
}
Generation generate(const std::string& members) {
  const auto parsed = parse_ollama_generate(with(Endpoint::kOllamaGenerate, members), {});
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed.value() : Generation{};
}
const ChatPrompt& prompt_of(const Generation& generation) { return std::get<ChatPrompt>(generation.prompts.at(0)); }

TEST(Ollama, OptionsAreSampling) {
  const std::string options =
      R"("options":{"temperature":0.5,"top_k":5,"top_p":0.9,"min_p":0.1,"seed":7,"num_predict":32,
    "num_ctx":8192,"stop":["a","b"],"repeat_penalty":1.25,"repeat_last_n":-1,"presence_penalty":0.5,"frequency_penalty":-0.5,
    "mirostat":0,"mirostat_tau":5.0,"tfs_z":1.0,"typical_p":1.0,"num_thread":8,"num_gpu":99,"use_mmap":true})";
  for (const Generation& generation : {chat(options), generate(options)}) {
    const SamplingParams& sampling = generation.sampling;
    EXPECT_EQ(sampling.temperature, 0.5);
    EXPECT_EQ(sampling.top_k, 5);
    EXPECT_EQ(sampling.top_p, 0.9);
    EXPECT_EQ(sampling.min_p, 0.1);
    EXPECT_EQ(sampling.repetition_penalty, 1.25);
    EXPECT_EQ(sampling.presence_penalty, 0.5);
    EXPECT_EQ(sampling.frequency_penalty, -0.5);
    EXPECT_EQ(generation.seed, 7U);
    EXPECT_EQ(generation.max_tokens, 32);
    EXPECT_EQ(generation.stop, (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(generation.stream);
    EXPECT_FALSE(sampling.wants_logprobs());
  }
  for (const char* count : {"-1", "-2", "0"}) {
    EXPECT_FALSE(chat(R"("options":{"num_predict":)" + std::string(count) + "}").max_tokens.has_value());
  }
  EXPECT_FALSE(chat(R"("options":{"seed":-1})").seed.has_value());
  EXPECT_TRUE(chat(R"("options":{"top_p":0})").sampling.greedy());
  EXPECT_EQ(chat(R"("options":{"repeat_penalty":1.5,"repeat_last_n":0})").sampling.repetition_penalty, 1.0);
  EXPECT_EQ(chat(R"("options":{"repeat_last_n":64})").sampling.repetition_penalty, 1.0);
}

TEST(Ollama, Conversations) {
  const Generation generation =
      chat(R"("model":"m:latest","stream":false,"keep_alive":"5m","think":"low","format":"json",
    "logprobs":true,"top_logprobs":3,"messages":[{"role":"system","content":"s"},{"role":"user","content":"q","images":[]},
      {"role":"assistant","content":"","thinking":"t","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},
      {"role":"tool","tool_name":"f","content":"ok"}],
    "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}])");
  EXPECT_EQ(prompt_of(generation).messages,
            Json::parse(R"([{"role":"system","content":"s"},{"role":"user","content":"q"},
    {"role":"assistant","content":"","reasoning_content":"t","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},
    {"role":"tool","content":"ok","name":"f"}])"));
  EXPECT_EQ(prompt_of(generation).template_kwargs["reasoning_effort"], "low");
  EXPECT_EQ(prompt_of(generation).template_kwargs["enable_thinking"], true);
  EXPECT_EQ(generation.model, "m:latest");
  EXPECT_EQ(generation.tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(generation.constraint.kind, Constraint::Kind::kJsonObject);
  EXPECT_EQ(generation.sampling.top_logprobs, 3);
  EXPECT_FALSE(generation.stream);
  EXPECT_EQ(prompt_of(chat(R"("think":false)")).template_kwargs["enable_thinking"], false);
  const Generation schema = chat(R"("format":{"type":"object"})");
  EXPECT_EQ(schema.constraint.kind, Constraint::Kind::kJsonSchema);
  EXPECT_EQ(schema.constraint.param, "format");
  EXPECT_EQ(chat(R"("format":"")").constraint.kind, Constraint::Kind::kNone);
}

TEST(Ollama, Prompts) {
  const Generation plain = generate(R"("system":"s","suffix":"","template":"","context":[],"images":[])");
  EXPECT_EQ(prompt_of(plain).messages,
            Json::parse(R"([{"role":"system","content":"s"},{"role":"user","content":"hi"}])"));
  EXPECT_TRUE(plain.split_reasoning);
  const Generation raw = generate(R"("raw":true)");
  EXPECT_EQ(std::get<TextPrompt>(raw.prompts.at(0)).text, "hi");
  EXPECT_FALSE(raw.split_reasoning);
}

// A request without anything to answer asks for the model to be loaded.
TEST(Ollama, RequestsThatOnlyLoad) {
  for (const Generation& generation : {chat(R"("messages":[],"keep_alive":-1)"), generate(R"("prompt":"")")}) {
    EXPECT_TRUE(generation.prompts.empty());
    EXPECT_FALSE(generation.stream);
  }
  FormatContext context;
  context.model = "m";
  EXPECT_EQ(Json::parse(make_format(Api::kOllamaChat, context)->body({}, {})), Json::parse(R"({"model":"m",
    "created_at":"1970-01-01T00:00:00Z","message":{"role":"assistant","content":""},"done_reason":"load","done":true})"));
  EXPECT_EQ(Json::parse(make_format(Api::kOllamaGenerate, context)->body({}, {}))["response"], "");
}

TEST(Ollama, Refusals) {
  const std::pair<const char*, const char*> kBoth[] = {
      {R"("options":{"mirostat":2})", "options.mirostat"},
      {R"("options":{"repeat_penalty":1.1,"repeat_last_n":64})", "options.repeat_last_n"},
      {R"("options":{"temperature":-1})", "options.temperature"},
      {R"("options":{"num_predict":-3})", "options.num_predict"},
      {R"("options":{"oops":1})", "options.oops"},
      {R"("options":[])", "options"},
      {R"("think":"maybe")", "think"},
      {R"("think":1)", "think"},
      {R"("format":"yaml")", "format"},
      {R"("format":3)", "format"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("stream":"no")", "stream"}};
  for (const auto& [members, param] : kBoth) {
    for (const Endpoint endpoint : {Endpoint::kOllamaChat, Endpoint::kOllamaGenerate}) {
      const auto error = refusal_of(endpoint, with(endpoint, members));
      ASSERT_TRUE(error.has_value()) << members;
      EXPECT_EQ(error->param, param);
    }
  }
  for (const auto& [members, param] : {std::pair{R"("suffix":"x")", "suffix"},
                                       {R"("images":["x"])", "images"},
                                       {R"("context":[1])", "context"},
                                       {R"("template":"x")", "template"},
                                       {R"("raw":true,"system":"s")", "system"},
                                       {R"("prompt":7)", "prompt"}}) {
    const auto error = refusal_of(Endpoint::kOllamaGenerate, with(Endpoint::kOllamaGenerate, members));
    ASSERT_TRUE(error.has_value()) << members;
    EXPECT_EQ(error->param, param);
  }
  const auto error =
      refusal_of(Endpoint::kOllamaChat, Json::parse(R"({"messages":[{"role":"user","content":"a","images":["x"]}]})"));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param, "messages[0].images");
}

/// The parts of a stream put together, as a client does it.
Json assembled(const std::string& stream, bool chat) {
  Json body;
  std::string content, thinking;
  Json calls = Json::array(), logprobs = Json::array();
  bool done = false;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find('\n', at);
    EXPECT_NE(end, std::string::npos);
    const Json line = Json::parse(stream.substr(at, end - at));
    EXPECT_FALSE(done) << "a line after the last";
    done = line["done"].get<bool>();
    const Json& holder = chat ? line["message"] : line;
    content += holder[chat ? "content" : "response"].get<std::string>();
    thinking += holder.value("thinking", "");
    for (const Json& call : holder.value("tool_calls", Json::array())) calls.push_back(call);
    for (const Json& token : line.value("logprobs", Json::array())) logprobs.push_back(token);
    body = line;
    at = end + 1;
  }
  EXPECT_TRUE(done);
  Json& holder = chat ? body["message"] : body;
  holder[chat ? "content" : "response"] = content;
  if (!thinking.empty()) holder["thinking"] = thinking;
  if (!calls.empty()) holder["tool_calls"] = calls;
  if (!logprobs.empty()) body["logprobs"] = logprobs;
  return body;
}

bool same(Json a, Json b) {  // whatever the order of members
  return nlohmann::json::parse(a.dump()) == nlohmann::json::parse(b.dump());
}

TEST(Ollama, StreamsSayWhatBodiesSay) {
  for (const Api api : {Api::kOllamaChat, Api::kOllamaGenerate}) {
    std::mt19937 random(11);
    for (int round = 0; round < 60; ++round) {
      const Sample sample = make_sample(api, random);
      const Json body = Json::parse(sample.body);
      EXPECT_TRUE(same(assembled(sample.stream, api == Api::kOllamaChat), body)) << sample.stream << sample.body;
      EXPECT_EQ(body["eval_count"], sample.usage.completion_tokens);
      EXPECT_EQ(body["prompt_eval_count"], sample.usage.prompt_tokens);
    }
  }
}

TEST(Ollama, FiguresOfTheLastLine) {
  FormatContext context;
  context.model = "served";
  context.generation.model = "served:latest";
  context.created_s = 1700000000;
  FinishedAnswer answer;
  answer.content = "hi";
  answer.tool_calls = {{0, "call_1", "f", R"({"a": 1})"}, {1, "call_2", "g", "{oops"}};
  answer.end.reason = AnswerEnd::Reason::kToolCalls;
  answer.end.stats.submitted_ns = 1000;
  answer.end.stats.admitted_ns = 1100;
  answer.end.stats.prompt_done_ns = 1500;
  answer.end.stats.finished_ns = 3500;
  Json body = Json::parse(make_format(Api::kOllamaChat, context)->body({answer}, {11, 4, 9, 2}));
  body.erase("metrics");
  EXPECT_EQ(body,
            Json::parse(R"({"model":"served:latest","created_at":"2023-11-14T22:13:20Z","message":{"role":"assistant",
    "content":"hi","tool_calls":[{"id":"call_1","function":{"index":0,"name":"f","arguments":{"a":1}}},
      {"id":"call_2","function":{"index":1,"name":"g","arguments":{"raw_arguments":"{oops"}}}]},
    "done_reason":"stop","done":true,"total_duration":2500,"load_duration":100,"prompt_eval_count":11,
    "prompt_eval_duration":400,"eval_count":9,"eval_duration":2000})"));
  const Json waiting = Json::parse(make_format(Api::kOllamaChat, context)->keep_alive());
  EXPECT_EQ(waiting["message"]["content"], "");
  EXPECT_EQ(waiting["done"], false);
  const ApiError error{404, "invalid_request_error", "gone", "model", "model_not_found", 0};
  EXPECT_EQ(error_body(Api::kOllamaGenerate, error), R"({"error":"gone"})");
  EXPECT_EQ(make_format(Api::kOllamaChat, context)->failed(error), "{\"error\":\"gone\"}\n");
}

}  // namespace
}  // namespace ashlar::server::test
