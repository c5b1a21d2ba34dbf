// SPDX-License-Identifier: Apache-2.0
#pragma once
// Requests by endpoint, for tests.

#include <optional>
#include <string>

#include "server/api/parse/field_table.h"
#include "server/api/parse/parse.h"

namespace ashlar::server::test {

/// The refusal of a body, or nothing if it is accepted.
template <class T>
std::optional<ApiError> refusal(const Parsed<T>& parsed) {
  if (parsed.ok()) return std::nullopt;
  return parsed.error();
}

inline std::optional<ApiError> refusal_of(Endpoint endpoint, const Json& body, const ApiLimits& limits = {}) {
  switch (endpoint) {
    case Endpoint::kChat:
      return refusal(parse_chat(body, limits));
    case Endpoint::kCompletions:
      return refusal(parse_completions(body, limits));
    case Endpoint::kResponses:
      return refusal(parse_responses(body, limits));
    case Endpoint::kMessages:
      return refusal(parse_messages(body, limits));
    case Endpoint::kCountTokens:
      return refusal(parse_count_tokens(body, limits));
    case Endpoint::kGenerate:
      return refusal(parse_generate(body, limits));
    case Endpoint::kSampling:
      return refusal(parse_generate({{"text", "x"}, {"sampling_params", body}}, limits));
    case Endpoint::kOllamaChat:
      return refusal(parse_ollama_chat(body, limits));
    case Endpoint::kOllamaGenerate:
      return refusal(parse_ollama_generate(body, limits));
    case Endpoint::kOllamaOptions:
      return refusal(parse_ollama_generate({{"prompt", "x"}, {"options", body}}, limits));
    case Endpoint::kOllamaShow:
      return refusal(parse_ollama_show(body, limits));
    case Endpoint::kTokenize:
      return refusal(parse_tokenize(body, limits));
    case Endpoint::kDetokenize:
      return refusal(parse_detokenize(body, limits));
    case Endpoint::kApplyTemplate:
      return refusal(parse_apply_template(body, limits));
  }
  return std::nullopt;
}

/// The smallest body that an endpoint accepts, as the inside of an object.
inline const char* smallest(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat:
    case Endpoint::kCountTokens:
    case Endpoint::kApplyTemplate:
    case Endpoint::kOllamaChat:
      return R"("messages":[{"role":"user","content":"hi"}])";
    case Endpoint::kMessages:
      return R"("max_tokens":9,"messages":[{"role":"user","content":"hi"}])";
    case Endpoint::kCompletions:
      return R"("prompt":"hi")";
    case Endpoint::kTokenize:
    case Endpoint::kOllamaGenerate:
      return R"("prompt":"hi")";
    case Endpoint::kOllamaOptions:
      return R"("num_predict":9)";
    case Endpoint::kOllamaShow:
      return R"("model":"m")";
    case Endpoint::kResponses:
      return R"("input":"hi")";
    case Endpoint::kGenerate:
      return R"("text":"hi")";
    case Endpoint::kSampling:
      return R"("max_new_tokens":9)";
    case Endpoint::kDetokenize:
      return R"("tokens":[1])";
  }
  return "";
}

/// The smallest body with these members in front; a member given twice takes the first.
inline Json with(Endpoint endpoint, const std::string& members) {
  Json body = Json::parse("{" + std::string(smallest(endpoint)) + "}");
  body.update(Json::parse("{" + members + "}"));
  return body;
}

}  // namespace ashlar::server::test
