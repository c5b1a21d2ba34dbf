// SPDX-License-Identifier: Apache-2.0
#pragma once
// What config.json of a drafter says in the form of vLLM's speculators (version 0.7).

#include "io/json.h"
#include "model/drafters/dflash_config.h"

namespace ashlar {

/// Of a drafter that zlab_config() could write; layers to read from are counted from 1 there. `target` is named as the
/// verifier: by its folder, with the architectures of its config.json. Throws Error("train", ...) for causal layers
/// without a window, which the form cannot say.
Json speculators_config(const DflashConfig& drafter, const ModelConfig& target);

}  // namespace ashlar
