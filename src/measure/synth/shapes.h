// SPDX-License-Identifier: Apache-2.0
#pragma once
// What config.json says of models whose shapes are often measured.

#include <string>

#include "io/json.h"

namespace ashlar {

/// Of a name like "qwen3-0.6b", or of the path of a config.json or of a model's folder, which is read (and says nothing
/// of how weights are quantised). Throws Error("synth", ...) for a name that is neither, with the known ones.
Json shape_config(const std::string& shape);

/// "qwen3-0.6b, qwen3-1.7b, ..."
std::string shape_names();

}  // namespace ashlar
