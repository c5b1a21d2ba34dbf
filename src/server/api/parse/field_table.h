// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every field of every request, in one table: what it does, and which of its values ask for nothing. The parsers refuse
// what is not in it unless it is null or false, and the OpenAPI document is written from it.

#include <cstdint>
#include <span>
#include <string_view>

namespace ashlar::server {

/// Bodies of requests. kSampling is the object sampling_params of kGenerate, kOllamaOptions the object options of
/// kOllamaChat and kOllamaGenerate.
enum class Endpoint : uint8_t {
  kChat,
  kCompletions,
  kResponses,
  kMessages,
  kCountTokens,
  kGenerate,
  kSampling,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kOllamaChat,
  kOllamaGenerate,
  kOllamaOptions,
  kOllamaShow,
};
inline constexpr int kEndpoints = 14;

constexpr uint32_t bit_of(Endpoint endpoint) { return 1u << static_cast<uint32_t>(endpoint); }

struct EndpointInfo {
  Endpoint endpoint;
  const char* path;
  const char* summary;
};
const EndpointInfo& info_of(Endpoint endpoint);

enum class FieldUse : uint8_t {
  kActs,       ///< changes what happens, or is checked
  kTolerated,  ///< a hint: accepted if it is of the schema's type, and without effect
  kRefused,    ///< known, and refused with the note unless it asks for nothing: null, false, zero, empty or harmless
};

struct FieldSpec {
  const char* name;
  uint32_t endpoints;  ///< bit_of, or-ed
  FieldUse use;
  const char* schema;   ///< JSON Schema
  const char* example;  ///< JSON; accepted (refused if kRefused)
  const char* note;     ///< for people
  bool required = false;
  const char* harmless = "[]";  ///< JSON: further values of a refused field that ask for what is done anyway
};

std::span<const FieldSpec> all_fields();
/// The field's row, or null if the endpoint has no such field.
const FieldSpec* find_field(Endpoint endpoint, std::string_view name);

}  // namespace ashlar::server
