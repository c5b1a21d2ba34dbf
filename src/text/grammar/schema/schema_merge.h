// SPDX-License-Identifier: Apache-2.0
#pragma once
// How two JSON schemas that must both hold become one.

#include <string>

#include "text/grammar/schema/schema_keywords.h"

namespace ashlar::grammar {

/// A schema that holds where both do, as far as merging keywords can say; `false` where they contradict each other.
/// Both are objects or booleans; properties and items that both have become allOf.
Json merge_schemas(const Json& a, const Json& b, const std::string& pointer);

/// A flattened schema as one that may be merged with others: its unevaluatedProperties, which knows nothing of them,
/// becomes additionalProperties. Throws where it depends on alternatives.
Json closed_in_itself(Json schema, const std::string& pointer);

}  // namespace ashlar::grammar
