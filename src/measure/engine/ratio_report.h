// SPDX-License-Identifier: Apache-2.0
#pragma once
// A ratio with its error, for people and for programs.

#include <string>

#include "io/json.h"
#include "measure/statistics.h"

namespace ashlar {

/// "3.14 ± 0.02"; without an error where a single pair has none, and "-" of nothing.
std::string ratio_text(const Ratio& ratio, int decimals);
Json ratio_json(const Ratio& ratio);

}  // namespace ashlar
