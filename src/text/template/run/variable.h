// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a caller hands to a template.

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "io/json.h"
#include "text/template/origins.h"

namespace ashlar {

/// A name that a template sees, with a JSON value.
struct Variable {
  std::string name;
  const Json* value;              ///< outlives the rendering
  Origin origin = Origin::kData;  ///< of all strings in it, names of members included
  /// Values inside `value` that are of another origin, with all that is below them.
  std::unordered_map<const Json*, Origin> parts = {};
  /// Objects inside `value` that clients send as JSON text, which some templates print or add to other text and others
  /// look into: where text is wanted they are that text, as tojson writes it.
  std::unordered_set<const Json*> json_texts = {};
};

}  // namespace ashlar
