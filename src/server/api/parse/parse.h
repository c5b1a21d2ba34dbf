// SPDX-License-Identifier: Apache-2.0
#pragma once
// Requests of every API, from JSON to server/generation.h. Pure functions; any JSON gives a value or an ApiError of
// status 400 whose param is the path of the field at fault. docs/api.md lists the fields.

#include <string_view>

#include "io/json.h"
#include "server/api/format/formats.h"
#include "server/api/limits.h"
#include "server/api/parse/parsed.h"
#include "server/generation.h"

namespace ashlar::server {

/// A request's bytes as JSON: valid UTF-8, at most 64 levels deep, no key twice in an object. Half a surrogate pair is
/// U+FFFD.
Parsed<Json> parse_body(std::string_view bytes);

Parsed<Generation> parse_chat(const Json& body, const ApiLimits& limits);
Parsed<Generation> parse_completions(const Json& body, const ApiLimits& limits);
Parsed<Generation> parse_responses(const Json& body, const ApiLimits& limits);
Parsed<Generation> parse_messages(const Json& body, const ApiLimits& limits);
Parsed<Generation> parse_generate(const Json& body, const ApiLimits& limits);
/// Without prompts if there is nothing to answer: the request only asks for the model to be loaded.
Parsed<Generation> parse_ollama_chat(const Json& body, const ApiLimits& limits);
Parsed<Generation> parse_ollama_generate(const Json& body, const ApiLimits& limits);
/// By one of these.
Parsed<Generation> parse_request(Api api, const Json& body, const ApiLimits& limits);

Parsed<PromptRequest> parse_count_tokens(const Json& body, const ApiLimits& limits);
Parsed<PromptRequest> parse_tokenize(const Json& body, const ApiLimits& limits);
Parsed<PromptRequest> parse_apply_template(const Json& body, const ApiLimits& limits);
Parsed<DetokenizeRequest> parse_detokenize(const Json& body, const ApiLimits& limits);
Parsed<ModelRequest> parse_ollama_show(const Json& body, const ApiLimits& limits);

}  // namespace ashlar::server
