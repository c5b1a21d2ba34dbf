// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model's makers recommend for requests that do not say how to sample.

#include <filesystem>

#include "server/api/limits.h"

namespace ashlar {

/// Of FOLDER/generation_config.json, if there is one. Of values it takes what requests may say, -1 for a top_k that is
/// off included. "do_sample": false is temperature 0; left out, the file's temperature counts. Throws Error("config",
/// ...) naming file and field.
server::SamplingDefaults read_sampling_defaults(const std::filesystem::path& folder);

}  // namespace ashlar
