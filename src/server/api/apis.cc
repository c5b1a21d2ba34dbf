// SPDX-License-Identifier: Apache-2.0
// What differs from API to API in one word or one call.

#include "server/api/format/formats.h"
#include "server/api/parse/parse.h"
#include "server/api/wire.h"
#include "server/error_shape.h"

namespace ashlar::server {
namespace {

struct ApiInfo {
  Api api;
  const char* name;
  Parsed<Generation> (*parse)(const Json& body, const ApiLimits& limits);
};

constexpr ApiInfo kApiInfos[] = {
    {Api::kChat, "chat", parse_chat},
    {Api::kCompletions, "completions", parse_completions},
    {Api::kResponses, "responses", parse_responses},
    {Api::kMessages, "messages", parse_messages},
    {Api::kGenerate, "generate", parse_generate},
    {Api::kOllamaChat, "ollama_chat", parse_ollama_chat},
    {Api::kOllamaGenerate, "ollama_generate", parse_ollama_generate},
};

const ApiInfo& info_of(Api api) {
  const ApiInfo& info = kApiInfos[static_cast<size_t>(api)];
  ASHLAR_CHECK(info.api == api);
  return info;
}

bool is_ollama(Api api) { return api == Api::kOllamaChat || api == Api::kOllamaGenerate; }

}  // namespace

const char* name_of(Api api) { return info_of(api).name; }

Parsed<Generation> parse_request(Api api, const Json& body, const ApiLimits& limits) {
  return info_of(api).parse(body, limits);
}

const char* stream_type(Api api) { return is_ollama(api) ? "application/x-ndjson" : "text/event-stream"; }

std::unique_ptr<Format> make_format(Api api, FormatContext context) {
  switch (api) {
    case Api::kChat:
      return make_chat_format(std::move(context));
    case Api::kCompletions:
      return make_completions_format(std::move(context));
    case Api::kResponses:
      return make_responses_format(std::move(context));
    case Api::kMessages:
      return make_messages_format(std::move(context));
    case Api::kGenerate:
      return make_generate_format(std::move(context));
    case Api::kOllamaChat:
    case Api::kOllamaGenerate:
      return make_ollama_format(std::move(context), api == Api::kOllamaChat);
  }
  return nullptr;
}

std::string error_body(Api api, const ApiError& error) {
  if (api == Api::kMessages) return to_line(messages_error(error.status, error.message));
  return to_line(is_ollama(api) ? ollama_error(error.message) : openai_error(error));
}

}  // namespace ashlar::server
