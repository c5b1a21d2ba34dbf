// SPDX-License-Identifier: Apache-2.0
#include "server/api/format/answer_schemas.h"

#include <string>
#include <utility>

namespace ashlar::server {
namespace {

// Errors, and the answers that are read off the server or a tokenizer.
constexpr AnswerSchema kOtherSchemas[] = {
    {"Error",
     R"({"type":"object","description":"An error as OpenAI words it.","properties":{"error":{"type":"object","properties":{
        "message":{"type":"string"},
        "type":{"enum":["invalid_request_error","authentication_error","permission_error","rate_limit_error","server_error",
                        "timeout_error"]},
        "param":{"type":["string","null"],"description":"Path of the field at fault, such as messages[2].content."},
        "code":{"type":["string","null"]}}}}})"},
    {"MessagesError", R"({"type":"object","description":"An error as Anthropic words it.","properties":{
        "type":{"const":"error"},
        "error":{"type":"object","properties":{
          "type":{"enum":["invalid_request_error","authentication_error","permission_error","not_found_error",
                          "request_too_large","rate_limit_error","overloaded_error","timeout_error","api_error"]},
          "message":{"type":"string"}}}}})"},
    {"OllamaError", R"({"type":"object","description":"An error as Ollama words it.","properties":{
        "error":{"type":"string"}}})"},
    {"OllamaDetails", R"({"type":"object","properties":{
        "parent_model":{"type":"string"},"format":{"const":"safetensors"},"family":{"type":"string"},
        "families":{"type":"array","items":{"type":"string"}},"parameter_size":{"type":"string"},
        "quantization_level":{"type":"string"}}})"},
    {"OllamaModels",
     R"({"type":"object","properties":{"models":{"type":"array","minItems":1,"items":{"type":"object","properties":{
        "name":{"type":"string"},"model":{"type":"string"},"size":{"type":"integer"},
        "digest":{"type":"string","description":"Of the name."},"details":"@OllamaDetails","modified_at":{"type":"string"}}}}}})"},
    {"OllamaRunning",
     R"({"type":"object","properties":{"models":{"type":"array","minItems":1,"items":{"type":"object","properties":{
        "name":{"type":"string"},"model":{"type":"string"},"size":{"type":"integer"},
        "digest":{"type":"string","description":"Of the name."},"details":"@OllamaDetails","expires_at":{"type":"string"},
        "size_vram":{"type":"integer"},"context_length":{"type":"integer","minimum":1}}}}}})"},
    {"OllamaModel", R"({"type":"object","properties":{
        "license":{"type":"string"},"modelfile":{"type":"string"},
        "parameters":{"type":"string","description":"What holds where a request does not say, a line each."},
        "template":{"type":"string"},"details":"@OllamaDetails",
        "model_info":{"type":"object","additionalProperties":true},
        "capabilities":{"type":"array","items":{"enum":["completion","tools","thinking"]}},
        "modified_at":{"type":"string"}}})"},
    {"TokenCount", R"({"type":"object","properties":{"input_tokens":{"type":"integer","minimum":0}}})"},
    {"Tokenized", R"({"type":"object","properties":{
        "tokens":{"type":"array","items":{"type":"integer","minimum":0}},
        "count":{"type":"integer","minimum":0},
        "max_model_len":{"type":"integer","minimum":1},
        "token_strs?":{"type":"array","items":{"type":"string"},"description":"With return_token_strs or with_pieces: as the vocabulary spells them."}}})"},
    {"Detokenized", R"({"type":"object","description":"The text, as vLLM and as llama.cpp name it.",
        "properties":{"prompt":{"type":"string"},"content":{"type":"string"}}})"},
    {"RenderedPrompt", R"({"type":"object","properties":{"prompt":{"type":"string"}}})"},
    {"Model", R"({"type":"object","properties":{
        "id":{"type":"string"},
        "object":{"const":"model"},
        "created":{"type":"integer"},
        "owned_by":{"const":"ashlar"},
        "root":{"type":"string"},
        "max_model_len":{"type":"integer","minimum":1,"description":"Positions of a prompt and its answer."}}})"},
    {"ModelList", R"({"type":"object","properties":{
        "object":{"const":"list"},"data":{"type":"array","minItems":1,"items":"@Model"}}})"},
    {"ModelInfo", R"({"type":"object","properties":{
        "model_path":{"type":"string"},"tokenizer_path":{"type":"string"},"is_generation":{"const":true}}})"},
    {"Health", R"({"type":"object","properties":{"status":{"const":"ok"},
        "busy?":{"type":"string","description":"Why a request would be refused for now; absent if it would not."}}})"},
    {"Unhealthy", R"({"type":"object","properties":{
        "status":{"type":"string","description":"Why requests would not be answered."}}})"},
    {"Version", R"({"type":"object","properties":{"version":{"type":"string"}}})"},
    {"Stats", R"({"type":"object","description":"Figures since the start, and of now.","properties":{
        "model":{"type":"string"},
        "description":{"type":"string","description":"Model, drafter and device in one line."},
        "version":{"type":"string"},
        "context":{"type":"integer","minimum":1,"description":"Positions of a prompt and its answer."},
        "decoder":{"type":"string"},
        "max_width":{"type":"integer","minimum":1,"description":"Most rows of a sequence in one verify step."},
        "block":{"type":"integer","minimum":0,"description":"Positions of a block; 0: the model fills none."},
        "running":{"type":"integer","minimum":0},
        "waiting":{"type":"integer","minimum":0},
        "pages":{"type":"object","description":"Of the KV cache.","properties":{
          "total":{"type":"integer","minimum":0},"held":{"type":"integer","minimum":0},
          "cached":{"type":"integer","minimum":0},"free":{"type":"integer","minimum":0}}},
        "prompt_tokens":{"type":"integer","minimum":0},
        "cached_tokens":{"type":"integer","minimum":0},
        "generated_tokens":{"type":"integer","minimum":0},
        "drafted":{"type":"integer","minimum":0},
        "accepted":{"type":"integer","minimum":0},
        "verify_spans":{"type":"integer","minimum":0},
        "decided":{"type":"integer","minimum":0},
        "blocks":{"type":"integer","minimum":0}}})"},
    {"OpenApi", R"({"type":"object","description":"This document.","properties":{
        "openapi":{"const":"3.1.0"},"info":{"type":"object"},"security":{"type":"array"},"paths":{"type":"object"},
        "components":{"type":"object"}}})"},
};

/// The shorthand of AnswerSchema written out.
Json expanded(const Json& value) {
  if (value.is_string() && value.get_ref<const std::string&>().starts_with('@')) {
    return schema_reference(value.get<std::string>().substr(1));
  }
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) out.push_back(expanded(item));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, part] : value.items()) out[key] = expanded(part);
  if (!value.contains("properties") || value.contains("additionalProperties")) return out;
  Json properties = Json::object(), required = Json::array();
  for (auto& [name, part] : out["properties"].items()) {
    const bool optional = name.ends_with('?');
    if (!optional) required.push_back(name);
    properties[optional ? name.substr(0, name.size() - 1) : name] = std::move(part);
  }
  out["properties"] = std::move(properties);
  if (!required.empty()) out["required"] = std::move(required);
  out["additionalProperties"] = false;
  return out;
}

}  // namespace

Json answer_schemas() {
  Json out = Json::object();
  for (const auto& list : {text_answer_schemas(), std::span<const AnswerSchema>(kOtherSchemas)}) {
    for (const AnswerSchema& one : list) out[one.name] = expanded(Json::parse(one.schema));
  }
  return out;
}

Json schema_reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

const char* answer_schema_of(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat:
      return "ChatCompletion";
    case Endpoint::kCompletions:
      return "Completion";
    case Endpoint::kResponses:
      return "Response";
    case Endpoint::kMessages:
      return "Message";
    case Endpoint::kCountTokens:
      return "TokenCount";
    case Endpoint::kGenerate:
      return "Generated";
    case Endpoint::kTokenize:
      return "Tokenized";
    case Endpoint::kDetokenize:
      return "Detokenized";
    case Endpoint::kApplyTemplate:
      return "RenderedPrompt";
    case Endpoint::kOllamaChat:
      return "OllamaChat";
    case Endpoint::kOllamaGenerate:
      return "OllamaGenerated";
    case Endpoint::kOllamaShow:
      return "OllamaModel";
    case Endpoint::kSampling:
    case Endpoint::kOllamaOptions:
      break;
  }
  return nullptr;
}

}  // namespace ashlar::server
