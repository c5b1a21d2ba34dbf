#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>

#include "text/template/value.h"

namespace ashlar::tmpl {

/// A JSON value as Python's json.loads would give it, but integers beyond 63 bits as floats. Fails on binary and too
/// deep nesting.
Value from_json(Budget& budget, const nlohmann::ordered_json& json);
/// The members of an object; null counts as an empty one.
std::unordered_map<std::string, Value> variables_from_json(Budget& budget, const nlohmann::ordered_json& json);

}  // namespace ashlar::tmpl
