#pragma once
// Every field of every request, in one table: the parsers refuse what is not in it and the OpenAPI document is written
// from it.

#include <cstdint>
#include <span>
#include <string_view>

namespace ashlar::server {

/// Bodies of requests. kSampling is the object sampling_params of kGenerate.
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
};
inline constexpr int kEndpoints = 10;

constexpr uint32_t bit_of(Endpoint endpoint) { return 1u << static_cast<uint32_t>(endpoint); }

struct EndpointInfo {
  Endpoint endpoint;
  const char* path;
  const char* summary;
};
const EndpointInfo& info_of(Endpoint endpoint);

enum class FieldUse : uint8_t {
  kActs,       ///< changes what happens, or is checked
  kTolerated,  ///< accepted if it is of the schema's type, and without effect
  kRefused,    ///< known, and refused with the note unless it is null, false, zero or empty
};

struct FieldSpec {
  const char* name;
  uint32_t endpoints;  ///< bit_of, or-ed
  FieldUse use;
  const char* schema;   ///< JSON Schema
  const char* example;  ///< JSON; accepted (refused if kRefused)
  const char* note;     ///< for people
  bool required = false;
};

std::span<const FieldSpec> all_fields();
/// The field's row, or null if the endpoint has no such field.
const FieldSpec* find_field(Endpoint endpoint, std::string_view name);

}  // namespace ashlar::server
