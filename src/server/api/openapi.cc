// SPDX-License-Identifier: Apache-2.0
#include "server/api/openapi.h"

#include <cstdint>
#include <string>
#include <utility>

#include "server/api/format/answer_schemas.h"
#include "server/api/parse/field_table.h"
#include "server/error_shape.h"

namespace ashlar::server {
namespace {

constexpr const char* kAbout =
    "Requests: null is the same as leaving a field out; x-ashlar-use says of each field whether it acts, is tolerated "
    "(of the documented type, without effect) or is refused unless it is null, false, zero or empty. Whatever answers "
    "GET answers HEAD. A key is needed where the server was started with keys. A request that is not understood as "
    "HTTP "
    "is refused in OpenAI's shape, whatever it asks for.";

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
      "ChatRequest",       "CompletionRequest",     "ResponseRequest", "MessagesRequest",   "CountTokensRequest",
      "GenerateRequest",   "SamplingParams",        "TokenizeRequest", "DetokenizeRequest", "ApplyTemplateRequest",
      "OllamaChatRequest", "OllamaGenerateRequest", "OllamaOptions",   "OllamaShowRequest"};
  return kNames[static_cast<size_t>(endpoint)];
}

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

Json content_of(std::string_view type, Json schema) {
  // Without charset and version, which are parameters of the type.
  return {{std::string(type.substr(0, type.find(';'))), {{"schema", std::move(schema)}}}};
}
Json json_content(Json schema) { return content_of("application/json", std::move(schema)); }

// What an operation does, which says how it may be refused.
constexpr uint32_t kAny = 1, kNeedsKey = 2, kNamesModel = 4, kTakesBody = 8, kGenerates = 16;

struct ErrorInfo {
  int status;
  uint32_t of;
  const char* meaning;
};
constexpr ErrorInfo kRefusals[] = {
    {400, kAny, "The request is refused; the message says why and names the field, if one is at fault"},
    {401, kNeedsKey, "An API key is needed"},
    {403, kAny, "The Host or Origin of the request is not one that may ask"},
    {404, kNamesModel, "The model is not served here"},
    {408, kAny, "The request took too long to arrive"},
    {413, kTakesBody, "The body is too large"},
    {415, kTakesBody, "The body has a Content-Encoding"},
    {429, kTakesBody, "The queue is full; Retry-After says when to come back"},
    {431, kAny, "The headers are too large"},
    {500, kAny, "The answer failed"},
    {503, kAny, "The server is shutting down, or too much is sent to it at once"},
    {504, kGenerates, "The answer took longer than the server allows"}};

/// The shape of errors of a path: OpenAI's, Anthropic's or Ollama's.
constexpr const char* kErrors[] = {"Error", "MessagesError", "OllamaError"};
const char* error_of(std::string_view path) {
  if (speaks_messages(path)) return kErrors[1];
  return speaks_ollama(path) ? kErrors[2] : kErrors[0];
}

/// Of a response of the document, which many operations share.
std::string refusal_name(const char* error, int status) { return error + std::to_string(status); }

Json refusal_response(const std::string& error, const ErrorInfo& refusal) {
  const int status = refusal.status;
  Json schema = schema_reference(error);
  // These may come before the path is known.
  if (error != kErrors[0] && (status == 408 || status == 431 || status == 503)) {
    schema = {{"oneOf", Json::array({schema, schema_reference(kErrors[0])})}};
  }
  Json out = {{"description", refusal.meaning}, {"content", json_content(std::move(schema))}};
  if (status == 401) out["headers"]["WWW-Authenticate"] = {{"schema", {{"const", "Bearer"}}}};
  if (status == 429) out["headers"]["Retry-After"] = {{"schema", {{"type", "integer"}, {"minimum", 1}}}};
  return out;
}

Json refusal_responses() {
  Json out = Json::object();
  for (const char* error : kErrors) {
    for (const ErrorInfo& refusal : kRefusals)
      out[refusal_name(error, refusal.status)] = refusal_response(error, refusal);
  }
  return out;
}

/// An operation's answers: `done`, and the refusals of these traits.
Json responses(std::string_view path, Json done, uint32_t traits) {
  Json out = {{"200", std::move(done)}};
  for (const ErrorInfo& refusal : kRefusals) {
    if ((traits & refusal.of) == 0) continue;
    const std::string name = refusal_name(error_of(path), refusal.status);
    out[std::to_string(refusal.status)] = {{"$ref", "#/components/responses/" + name}};
  }
  return out;
}

Json post_operation(const EndpointInfo& info) {
  Json done = {{"description", "Done"}, {"content", json_content(schema_reference(answer_schema_of(info.endpoint)))}};
  const bool streams = find_field(info.endpoint, "stream") != nullptr;
  // Without a schema: OpenAPI does not say whether it would describe the stream or an event.
  if (streams) {
    done["content"][speaks_ollama(info.path) ? "application/x-ndjson" : "text/event-stream"] = Json::object();
  }
  const uint32_t traits = kAny | kNeedsKey | kNamesModel | kTakesBody | (streams ? kGenerates : 0U);
  return {
      {"summary", info.summary},
      {"requestBody", {{"required", true}, {"content", json_content(schema_reference(schema_name(info.endpoint)))}}},
      {"responses", responses(info.path, std::move(done), traits)}};
}

struct GetInfo {
  const char* path;
  const char* summary;
  const char* schema;  ///< name of the answer's shape; null: text
};
constexpr GetInfo kGets[] = {{"/v1/models", "The model that is served", "ModelList"},
                             {"/v1/models/{id}", "The model that is served, by its name or an alias", "Model"},
                             {"/get_model_info", "What SGLang's clients ask first", "ModelInfo"},
                             {"/metrics", "Figures for Prometheus", nullptr},
                             {"/version", "The server's version", "Version"},
                             {"/stats", "Figures for the page", "Stats"},
                             {"/api/tags", "The model that is served, for Ollama's clients", "OllamaModels"},
                             {"/api/ps", "The same, as the models that are loaded", "OllamaRunning"},
                             {"/api/version", "The version of Ollama whose API this is", "Version"},
                             {"/openapi.json", "This document", "OpenApi"}};

Json get_operation(const GetInfo& info) {
  Json answer = info.schema != nullptr ? json_content(schema_reference(info.schema))
                                       : content_of("text/plain", {{"type", "string"}});
  Json done = {{"description", "Done"}, {"content", std::move(answer)}};
  Json out = {{"summary", info.summary}};
  const bool names_model = std::string_view(info.path).ends_with("{id}");
  if (names_model) {
    out["parameters"] = Json::array({{{"name", "id"},
                                      {"in", "path"},
                                      {"required", true},
                                      {"description", "The model's name; slashes in it may stay as they are."},
                                      {"schema", {{"type", "string"}, {"minLength", 1}}}}});
  }
  out["responses"] = responses(info.path, std::move(done), kAny | kNeedsKey | (names_model ? kNamesModel : 0U));
  return out;
}

/// Of what needs no key.
Json open_operation(const char* summary, std::string_view path, Json done) {
  return {{"summary", summary}, {"security", Json::array()}, {"responses", responses(path, std::move(done), kAny)}};
}

Json health_operation() {
  Json done = {{"description", "They would"}, {"content", json_content(schema_reference("Health"))}};
  Json out = open_operation("Whether requests would be answered", "/health", std::move(done));
  const Json shapes = Json::array({schema_reference("Unhealthy"), schema_reference("Error")});
  out["responses"]["503"] = {{"description", "They would not"}, {"content", json_content({{"oneOf", shapes}})}};
  return out;
}

Json security_schemes() {
  return {{"bearer", {{"type", "http"}, {"scheme", "bearer"}, {"description", "As OpenAI's clients send a key."}}},
          {"x-api-key",
           {{"type", "apiKey"},
            {"in", "header"},
            {"name", "x-api-key"},
            {"description", "As Anthropic's clients send a key."}}}};
}

}  // namespace

Json openapi_document(std::span<const OpenFile> files) {
  Json paths = Json::object(), schemas = Json::object();
  for (int i = 0; i < kEndpoints; ++i) {
    const auto endpoint = static_cast<Endpoint>(i);
    const EndpointInfo& info = info_of(endpoint);
    schemas[schema_name(endpoint)] = schema_of(endpoint);
    if (info.path[0] == '/') paths[info.path] = {{"post", post_operation(info)}};
  }
  schemas.update(answer_schemas());
  for (const GetInfo& info : kGets) paths[info.path] = {{"get", get_operation(info)}};
  paths["/health"] = {{"get", health_operation()}};
  for (const OpenFile& file : files) {
    Json done = {{"description", "The file"}, {"content", content_of(file.content_type, {{"type", "string"}})}};
    paths[std::string(file.path)] = {{"get", open_operation("A file of the page", file.path, std::move(done))}};
  }
  // Either way of sending a key, or none where the server has no keys.
  const Json security = Json::array({Json::object(), {{"bearer", Json::array()}}, {{"x-api-key", Json::array()}}});
  return {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Ashlar"}, {"version", "1"}, {"description", kAbout}}},
      {"security", security},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", std::move(schemas)}, {"responses", refusal_responses()}, {"securitySchemes", security_schemes()}}}};
}

}  // namespace ashlar::server
