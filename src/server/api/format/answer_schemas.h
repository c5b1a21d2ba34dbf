// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shapes of what the server answers, for the OpenAPI document. Written by hand next to the code that emits them
// (the formats, wire.cc, error_shape.h, service/routes.cc); tests hold answers against them.

#include <span>

#include "io/json.h"
#include "server/api/parse/field_table.h"

namespace ashlar::server {

struct AnswerSchema {
  const char* name;
  /// JSON Schema, where an object that lists its properties has all of them and no others, unless it says something of
  /// additionalProperties itself; a property whose name ends in '?' may be missing. @Name refers to another shape.
  const char* schema;
};
/// Answers of the seven APIs that generate text, and what they are made of.
std::span<const AnswerSchema> text_answer_schemas();

/// All shapes by name, as plain JSON Schema: components/schemas of the document.
Json answer_schemas();

/// A reference to a shape of the document.
Json schema_reference(const std::string& name);

/// The shape of an endpoint's answer; null for kSampling and kOllamaOptions, which are none.
const char* answer_schema_of(Endpoint endpoint);

}  // namespace ashlar::server
