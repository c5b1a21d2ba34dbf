// SPDX-License-Identifier: Apache-2.0
// The table of fields, the OpenAPI document and the parsers say the same.

#include <gtest/gtest.h>

#include <map>

#include "server/api/openapi.h"
#include "unit/server/api_support.h"

namespace ashlar::server::test {
namespace {

/// What must be there, or must be gone, for a field's example to make sense.
Json body_for(Endpoint endpoint, const FieldSpec& field) {
  const std::string name = field.name;
  Json body = with(endpoint, "");
  if (name == "input_ids") body.erase("text");
  if (endpoint == Endpoint::kTokenize && (name == "content" || name == "messages")) body.erase("prompt");
  if (name == "top_logprobs_num") body["return_logprob"] = true;
  body[name] = Json::parse(field.example);
  return body;
}

template <class Check>
void for_each_field(Check check) {
  for (int i = 0; i < kEndpoints; ++i) {
    for (const FieldSpec& field : all_fields()) {
      const auto endpoint = static_cast<Endpoint>(i);
      if ((field.endpoints & bit_of(endpoint)) == 0) continue;
      SCOPED_TRACE(std::string(info_of(endpoint).path) + " " + field.name);
      check(endpoint, field);
    }
  }
}

std::string path_of(Endpoint endpoint, const std::string& name) {
  if (endpoint == Endpoint::kOllamaOptions) return "options." + name;
  return (endpoint == Endpoint::kSampling ? "sampling_params." : "") + name;
}

TEST(ApiFields, ExamplesAreAcceptedAndRefusedAsDocumented) {
  for_each_field([](Endpoint endpoint, const FieldSpec& field) {
    const auto error = refusal_of(endpoint, body_for(endpoint, field));
    if (field.use != FieldUse::kRefused) {
      EXPECT_FALSE(error.has_value()) << error->message;
    } else {
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->param, path_of(endpoint, field.name));
      EXPECT_EQ(error->status, 400);
      for (const Json& value : Json::parse(field.harmless)) {
        Json body = body_for(endpoint, field);
        body[field.name] = value;
        EXPECT_FALSE(refusal_of(endpoint, body).has_value()) << value;
      }
    }
  });
}

TEST(ApiFields, NullIsAbsent) {
  for_each_field([](Endpoint endpoint, const FieldSpec& field) {
    Json body = with(endpoint, "");
    if (body.contains(field.name)) return;
    body[field.name] = nullptr;
    const auto error = refusal_of(endpoint, body);
    EXPECT_FALSE(error.has_value()) << error->message;
  });
}

TEST(ApiFields, DocumentedBoundsHold) {
  int checked = 0;
  for_each_field([&](Endpoint endpoint, const FieldSpec& field) {
    const Json schema = Json::parse(field.schema);
    const auto refused = [&](const Json& value) {
      Json body = body_for(endpoint, field);
      body[field.name] = value;
      if (field.name == std::string("best_of")) body["n"] = value;
      if (field.name == std::string("top_logprobs")) body["logprobs"] = true;
      if (endpoint == Endpoint::kResponses) body.erase("logprobs");
      const auto error = refusal_of(endpoint, body);
      return error.has_value();
    };
    ++checked;
    for (const char* bound : {"minimum", "maximum"}) {
      if (!schema.contains(bound)) continue;
      const auto value = schema[bound].get<double>();
      const double step = schema["type"] == "integer" ? 1 : 1e-3;
      EXPECT_FALSE(refused(schema[bound]));
      EXPECT_TRUE(refused(value + (bound[1] == 'i' ? -step : step)));
    }
    if (schema.contains("exclusiveMinimum")) {
      EXPECT_TRUE(refused(schema["exclusiveMinimum"]));
    }
  });
  EXPECT_GT(checked, 200);
}

TEST(ApiFields, TypesAreChecked) {
  const std::map<std::string, Json> wrong = {{"string", 1.5}, {"boolean", "yes"}, {"integer", "1"},
                                             {"number", "1"}, {"array", 3},       {"object", 3}};
  for_each_field([&](Endpoint endpoint, const FieldSpec& field) {
    const Json schema = Json::parse(field.schema);
    if (field.use == FieldUse::kRefused || !schema.contains("type")) return;
    Json body = body_for(endpoint, field);
    body[field.name] = wrong.at(schema["type"].get<std::string>());
    const auto error = refusal_of(endpoint, body);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->param, path_of(endpoint, field.name)) << error->message;
    EXPECT_NE(error->message.find(path_of(endpoint, field.name) + ": expected "), std::string::npos) << error->message;
  });
}

TEST(ApiFields, NoRowTwice) {
  for_each_field(
      [](Endpoint endpoint, const FieldSpec& field) { EXPECT_EQ(find_field(endpoint, field.name), &field); });
}

TEST(ApiFields, OpenApiListsEveryField) {
  const Json document = openapi_document({});
  EXPECT_EQ(document["openapi"], "3.1.0");
  const Json& schemas = document["components"]["schemas"];
  size_t listed = schemas["SamplingParams"]["properties"].size() + schemas["OllamaOptions"]["properties"].size();
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
        "/generate", "/tokenize", "/detokenize", "/apply-template", "/api/chat", "/api/generate", "/api/show"}) {
    ASSERT_TRUE(document["paths"].contains(path)) << path;
    const std::string reference =
        document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    const Json& schema = schemas[reference.substr(reference.rfind('/') + 1)];
    EXPECT_EQ(schema["additionalProperties"], false);
    EXPECT_GT(schema["properties"].size(), 1u) << path;
    listed += schema["properties"].size();
  }
  size_t rows = 0;
  for_each_field([&](Endpoint, const FieldSpec&) { ++rows; });
  EXPECT_EQ(listed, rows);
}

TEST(ApiFields, OpenApiTellsOfAnswersAndErrors) {
  const Json document = openapi_document({});
  const auto shape = [&](Json response) -> Json {
    if (response.contains("$ref")) {
      response = document.at(Json::json_pointer(response["$ref"].get<std::string>().substr(1)));
    }
    return response["content"]["application/json"]["schema"].value("$ref", "");
  };
  int operations = 0;
  for (const auto& [path, item] : document["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      SCOPED_TRACE(method + " " + path);
      ++operations;
      const Json& answers = operation["responses"];
      if (path != "/metrics") {
        EXPECT_NE(shape(answers["200"]), "");
      }
      const std::string error = path.starts_with("/v1/messages") ? "MessagesError"
                                : path.starts_with("/api/")      ? "OllamaError"
                                                                 : "Error";
      EXPECT_EQ(shape(answers["400"]), "#/components/schemas/" + error);
      EXPECT_EQ(answers.contains("401"), path != "/health");
      EXPECT_EQ(operation.contains("security"), path == "/health");
      EXPECT_EQ(answers.contains("404"), method == "post" || path == "/v1/models/{id}");
      const char* stream = error == "OllamaError" ? "application/x-ndjson" : "text/event-stream";
      EXPECT_EQ(answers["200"]["content"].contains(stream), answers.contains("504"));
    }
  }
  EXPECT_EQ(operations, 23);
  EXPECT_EQ(document["security"], Json::parse(R"([{},{"bearer":[]},{"x-api-key":[]}])"));
  EXPECT_EQ(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
  EXPECT_EQ(document["components"]["securitySchemes"]["x-api-key"]["in"], "header");
}

}  // namespace
}  // namespace ashlar::server::test
