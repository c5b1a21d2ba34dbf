// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an engine's options come to.

#include <cstdint>

#include "engine/engine.h"

namespace ashlar {

/// Throws Error("engine", ...) where an option is outside its range.
void check_options(const EngineOptions& options);

/// The pages of the KV cache for sequences of at most `max_positions` tokens. Throws Error("engine", ...) where one
/// such sequence does not fit.
int32_t choose_pages(const EngineOptions& options, const KvLayout& layout, int32_t max_positions);

}  // namespace ashlar
