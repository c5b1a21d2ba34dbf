// SPDX-License-Identifier: Apache-2.0
#pragma once
// What config.json says of drafters that fit a model, as published ones do.

#include <string>
#include <vector>

#include "io/json.h"
#include "model/config.h"

namespace ashlar {

/// "dflash", "dflash2" and so on.
std::vector<std::string> drafter_kinds();

/// A drafter of one of these kinds for the model, as wide as the model is: blocks of 16 and five layers, or a head that
/// drafts token by token and one layer, unless `layers` says otherwise (0: it does not). Throws Error("synth", ...) for
/// another kind, and where there can be none.
Json drafter_config_for(const std::string& kind, const ModelConfig& target, int32_t layers);

}  // namespace ashlar
