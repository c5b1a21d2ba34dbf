// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafters as folders that engines load: a config.json and a model.safetensors in bf16.

#include <filesystem>
#include <span>

#include "io/json.h"
#include "io/weights/safetensors_writer.h"
#include "model/drafters/dflash_config.h"

namespace ashlar {

/// As Python writes floats of config.json: 1e-06, not 9.999999974752427e-07, which is the same float.
double shortest(float value);

/// What config.json of such a drafter says. Reading it gives the configuration again (read_dflash_config), which must
/// be one of a plain rope, with the target's embedding and head, and any of designed_heads(). Of what layers see it can
/// say one window, for some of them, and that all, none or those with the window are causal: what can be read.
Json zlab_config(const DflashConfig& config);

/// Makes the folder if need be and replaces its two files, each at once when it is on the disk: whenever this stops, an
/// old or a new drafter is there. `config`: of config.json. Tensors have z-lab's names; those of numbers are rounded to
/// bf16. Throws Error("file", ...).
void write_drafter_folder(const std::filesystem::path& folder, const Json& config,
                          std::span<const TensorToWrite> tensors);

}  // namespace ashlar
