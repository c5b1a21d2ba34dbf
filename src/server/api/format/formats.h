// SPDX-License-Identifier: Apache-2.0
#pragma once
// The formats of all APIs, and their errors.

#include <memory>
#include <string>

#include "server/api/format/answer_parts.h"
#include "server/api/format/format.h"

namespace ashlar::server {

enum class Api : uint8_t { kChat, kCompletions, kResponses, kMessages, kGenerate, kOllamaChat, kOllamaGenerate };
inline constexpr int kApis = 7;

/// In logs and records.
const char* name_of(Api api);
/// The content type of a stream.
const char* stream_type(Api api);

std::unique_ptr<Format> make_format(Api api, FormatContext context);

/// The body of a response that refuses a request, in the API's own shape.
std::string error_body(Api api, const ApiError& error);

// One maker for each, for make_format.
std::unique_ptr<Format> make_chat_format(FormatContext context);
std::unique_ptr<Format> make_completions_format(FormatContext context);
std::unique_ptr<Format> make_responses_format(FormatContext context);
std::unique_ptr<Format> make_messages_format(FormatContext context);
std::unique_ptr<Format> make_generate_format(FormatContext context);
std::unique_ptr<Format> make_ollama_format(FormatContext context, bool chat);

}  // namespace ashlar::server
