#include "server/api/openapi.h"

#include <string>
#include <utility>

#include "server/api/field_table.h"

namespace ashlar::server {
namespace {

const char* word(FieldUse use) {
  switch (use) {
    case FieldUse::kActs:
      return "acts";
    case FieldUse::kTolerated:
      return "tolerated";
    case FieldUse::kRefused:
      return "refused";
  }
  return "";
}

std::string schema_name(Endpoint endpoint) {
  static constexpr const char* kNames[kEndpoints] = {
      "ChatRequest",     "CompletionRequest", "ResponseRequest", "MessagesRequest",   "CountTokensRequest",
      "GenerateRequest", "SamplingParams",    "TokenizeRequest", "DetokenizeRequest", "ApplyTemplateRequest"};
  return kNames[static_cast<size_t>(endpoint)];
}

Json reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

Json schema_of(Endpoint endpoint) {
  Json properties = Json::object(), required = Json::array();
  for (const FieldSpec& field : all_fields()) {
    if ((field.endpoints & bit_of(endpoint)) == 0) continue;
    Json property = Json::parse(field.schema);
    property["description"] = field.note;
    property["x-ashlar-use"] = word(field.use);
    property["examples"] = Json::array({Json::parse(field.example)});
    properties[field.name] = std::move(property);
    if (field.required) required.push_back(field.name);
  }
  Json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

Json json_content(Json schema) { return {{"application/json", {{"schema", std::move(schema)}}}}; }

Json operation(const EndpointInfo& info) {
  const Json any = {{"type", "object"}};
  Json done = {{"description", "Done"}, {"content", json_content(any)}};
  const FieldSpec* stream = find_field(info.endpoint, "stream");
  // Without a schema: OpenAPI does not say whether it would describe the stream or an event.
  if (stream != nullptr) done["content"]["text/event-stream"] = Json::object();
  Json responses = {{"200", std::move(done)}};
  constexpr std::pair<const char*, const char*> kRefusals[] = {
      {"400", "The request is refused; param names the field"},
      {"401", "An API key is needed"},
      {"404", "The model is not served here"},
      {"413", "The body is too large"},
      {"429", "The queue is full; Retry-After says when to come back"},
      {"500", "The answer failed"},
      {"503", "The server is shutting down"},
      {"504", "The answer took longer than the server allows"}};
  for (const auto& [status, meaning] : kRefusals) {
    responses[status] = {{"description", meaning}, {"content", json_content(any)}};
  }
  return {{"summary", info.summary},
          {"requestBody", {{"required", true}, {"content", json_content(reference(schema_name(info.endpoint)))}}},
          {"responses", std::move(responses)}};
}

}  // namespace

Json openapi_document() {
  Json paths = Json::object(), schemas = Json::object();
  for (int i = 0; i < kEndpoints; ++i) {
    const auto endpoint = static_cast<Endpoint>(i);
    const EndpointInfo& info = info_of(endpoint);
    schemas[schema_name(endpoint)] = schema_of(endpoint);
    if (info.path[0] == '/') paths[info.path] = {{"post", operation(info)}};
  }
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "Ashlar"}, {"version", "1"}}},
          {"paths", std::move(paths)},
          {"components", {{"schemas", std::move(schemas)}}}};
}

}  // namespace ashlar::server
