// SPDX-License-Identifier: Apache-2.0
// What the server answers is what the OpenAPI document says, and little else would be.

#include "server/api/format/answer_schemas.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>

#include "server/api/openapi.h"
#include "server/api/parse/parse.h"
#include "server/error_shape.h"
#include "unit/server/format_samples.h"
#include "unit/text/grammar/schema_checker.h"

namespace ashlar::server::test {
namespace {

using Pointer = Json::json_pointer;

const Json& document() {
  static const Json kDocument = openapi_document({});
  return kDocument;
}

bool holds(const std::string& name, const Json& value) {
  grammar::testing::SchemaChecker checker(document());
  return checker.holds(document()["components"]["schemas"].at(name), value);
}

constexpr std::array<Endpoint, kApis> kAnswering = {
    Endpoint::kChat,     Endpoint::kCompletions, Endpoint::kResponses,     Endpoint::kMessages,
    Endpoint::kGenerate, Endpoint::kOllamaChat,  Endpoint::kOllamaGenerate};

std::string shape_of(Api api) { return answer_schema_of(kAnswering[static_cast<size_t>(api)]); }

std::vector<Json> sample_bodies(Api api, int n) {
  std::mt19937 random(7);
  std::vector<Json> out;
  for (int i = 0; i < n; ++i) out.push_back(Json::parse(make_sample(api, random).body));
  return out;
}

/// What a request or a model may fill with members of its own.
bool is_free(Api api, const Pointer& at) {
  const std::string text = at.to_string();
  if (api == Api::kCompletions) return text.find("/top_logprobs/") != std::string::npos;
  if (api == Api::kMessages) return text.ends_with("/input") || text.find("/input/") != std::string::npos;
  if (api == Api::kOllamaChat) return text.find("/arguments") != std::string::npos;
  if (api != Api::kResponses) return false;
  return text.starts_with("/reasoning") || text.starts_with("/text") || text.starts_with("/metadata");
}

const std::set<std::string>& optional_members(Api api) {
  // Of an answer to a request that only loads the model, and of one without log-probabilities.
  static const std::set<std::string> kOllama = {
      "thinking",          "tool_calls",           "logprobs",   "total_duration", "load_duration",
      "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration",  "metrics"};
  if (api == Api::kOllamaChat || api == Api::kOllamaGenerate) return kOllama;
  static const std::set<std::string> kNames = {
      "reasoning_content",    "tool_calls",       "spec_verify_ct",     "spec_accept_token_num",
      "spec_draft_token_num", "spec_accept_rate", "spec_accept_length", "output_token_logprobs",
      "output_top_logprobs"};
  return kNames;
}

void for_each_place(const Json& value, const Pointer& at,
                    const std::function<void(const Pointer&, const Json&)>& look) {
  look(at, value);
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) for_each_place(value[i], at / i, look);
  } else if (value.is_object()) {
    for (const auto& [name, member] : value.items()) for_each_place(member, at / name, look);
  }
}

TEST(AnswerSchemas, ArePlainAndClosed) {
  size_t references = 0, objects = 0;
  std::vector<std::string> open;
  for_each_place(document()["components"]["schemas"], Pointer(), [&](const Pointer& at, const Json& value) {
    if (value.is_object() && value.contains("$ref")) {
      ++references;
      EXPECT_NO_THROW(document().at(Pointer(value["$ref"].get<std::string>().substr(1)))) << at;
    }
    if (!value.is_object() || !value.contains("properties") || !value["properties"].is_object()) return;
    ++objects;
    if (value.value("additionalProperties", Json()) != false) open.push_back(at.to_string());
    for (const auto& [name, member] : value["properties"].items()) EXPECT_FALSE(name.ends_with('?')) << at << name;
  });
  // A function, in whatever words the request chose it.
  EXPECT_EQ(open, std::vector<std::string>{"/Response/properties/tool_choice/oneOf/1"});
  EXPECT_GT(references, 10U);
  EXPECT_GT(objects, 50U);
  EXPECT_EQ(document()["components"]["schemas"].dump().find("\"@"), std::string::npos);
}

TEST(AnswerSchemas, BodiesOfAllApisHold) {
  for (int api = 0; api < kApis; ++api) {
    for (const Json& body : sample_bodies(static_cast<Api>(api), 60)) {
      EXPECT_TRUE(holds(shape_of(static_cast<Api>(api)), body)) << body.dump(1);
    }
  }
}

// Each change of a body that a client could trip over is one that the document rules out.
TEST(AnswerSchemas, NothingElseHolds) {
  for (int index = 0; index < kApis; ++index) {
    const auto api = static_cast<Api>(index);
    int changes = 0;
    for (const Json& body : sample_bodies(api, 6)) {
      for_each_place(body, Pointer(), [&](const Pointer& at, const Json& value) {
        if (is_free(api, at)) return;
        const auto refused = [&](const Json& changed, const char* what) {
          ++changes;
          EXPECT_FALSE(holds(shape_of(api), changed)) << what << at << " in " << body.dump();
        };
        Json changed = body;
        changed[at] = {{"unheard", "of"}};
        refused(changed, "another type at ");
        if (!value.is_null()) {
          changed[at] = nullptr;
          // Where null is as good: the content of an answer, or its log-probabilities, or there was no stop string.
          std::set<std::string> may_be_null = {"content", "logprobs", "stop_sequence", "incomplete_details"};
          if (api == Api::kOllamaChat || api == Api::kOllamaGenerate) may_be_null.clear();
          const bool text_of_triple = api == Api::kGenerate && !at.empty() && at.back() == "2";
          // And with echo those of the prompt's first token.
          const std::string of = at.empty() ? "" : at.parent_pointer().empty() ? "" : at.parent_pointer().back();
          const bool of_token = api == Api::kCompletions && (of == "token_logprobs" || of == "top_logprobs");
          if (at.empty() || (may_be_null.count(at.back()) == 0 && !text_of_triple && !of_token)) {
            refused(changed, "null at ");
          }
        }
        if (!value.is_object()) return;
        changed[at] = value;
        changed[at]["unheard"] = "of";
        refused(changed, "a new member at ");
        for (const auto& [name, member] : value.items()) {
          if (optional_members(api).count(name) > 0) continue;
          changed[at] = value;
          changed[at].erase(name);
          refused(changed, ("no " + name + " at ").c_str());
        }
      });
    }
    EXPECT_GT(changes, 200) << shape_of(api);
  }
}

TEST(AnswerSchemas, AnswersThatWereCutShortHold) {
  for (int index = 0; index < kApis; ++index) {
    const auto api = static_cast<Api>(index);
    for (const auto reason : {AnswerEnd::Reason::kCancelled, AnswerEnd::Reason::kError}) {
      FormatContext context;
      context.id = "1";
      context.generation.prompts = {TextPrompt{"p"}};
      FinishedAnswer answer;
      answer.end.reason = reason;
      const Json body = Json::parse(make_format(api, context)->body({answer}, {}));
      EXPECT_TRUE(holds(shape_of(api), body)) << body;
    }
  }
}

TEST(AnswerSchemas, AnswersOfBlocksHold) {
  for (int index = 0; index < kApis; ++index) {
    const auto api = static_cast<Api>(index);
    std::mt19937 random(3);
    FormatContext context;
    context.id = "1";
    context.generation.prompts = {TextPrompt{"p"}};
    context.generation.sampling.top_logprobs = 2;
    FinishedAnswer answer;
    answer.content = "a b";
    answer.tokens = {random_token(random), random_token(random)};
    for (TokenPiece& token : answer.tokens) token.step = 1;
    answer.end.stop_token = 2;
    answer.end.stats.verify_steps = 4;
    answer.end.stats.blocks = 1;
    answer.end.stats.lengths = {0, 3, 1};
    answer.end.stats.unmasked_in_pass = {2, 3};
    const std::string text = make_format(api, context)->body({answer}, {});
    EXPECT_NE(text.find("\"dllm\""), std::string::npos);
    EXPECT_EQ(text.find("step\":1") != std::string::npos || text.find("steps\":[1,1]") != std::string::npos,
              api != Api::kMessages);
    EXPECT_TRUE(holds(shape_of(api), Json::parse(text))) << text;
  }
}

TEST(AnswerSchemas, ResponsesThatRepeatTheirRequestHold) {
  const Json request = Json::parse(R"({"input":"hi","instructions":"s","metadata":{"a":"b","n":1},"max_output_tokens":9,
      "reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"text"},"verbosity":"low"},
      "tools":[{"type":"function","name":"f"},
               {"type":"function","name":"g","description":"d","parameters":{"type":"object"},"strict":true},
               {"type":"web_search"}],
      "tool_choice":{"type":"function","name":"g"},"parallel_tool_calls":false})");
  const Parsed<Generation> parsed = parse_responses(request, {});
  ASSERT_TRUE(parsed.ok());
  FormatContext context;
  context.id = "1";
  context.generation = parsed.value();
  const Json body = Json::parse(make_format(Api::kResponses, context)->body({FinishedAnswer{}}, {}));
  EXPECT_EQ(body["tools"].size(), 2U);
  EXPECT_EQ(body["metadata"], request["metadata"]);
  EXPECT_TRUE(holds("Response", body)) << body;
}

TEST(AnswerSchemas, ErrorsHold) {
  for (const int status : {400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 500, 503, 504}) {
    ApiError error{status, "invalid_request_error", "m", "", "", 0};
    EXPECT_TRUE(holds("MessagesError", Json::parse(error_body(Api::kMessages, error)))) << status;
    EXPECT_TRUE(holds("OllamaError", Json::parse(error_body(Api::kOllamaChat, error))));
    EXPECT_TRUE(holds("Error", Json::parse(error_body(Api::kChat, error))));
    error.param = "n";
    error.code = "c";
    const Json body = Json::parse(error_body(Api::kGenerate, error));
    EXPECT_TRUE(holds("Error", body));
    EXPECT_FALSE(holds("MessagesError", body));
    EXPECT_FALSE(holds("Error", messages_error(status, "m")));
  }
}

}  // namespace
}  // namespace ashlar::server::test
