// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model holds and needs, found without running it.

#include <filesystem>
#include <optional>
#include <string>

#include "decode/drafters.h"
#include "device/ops.h"
#include "io/json.h"
#include "session/drafter_check.h"

namespace ashlar {

/// Facts of a model folder or GGUF file, and of a drafter's if there is one, with what the KV cache needs on `ops`;
/// where `drafting` has a window, for `sequences` at once. Of a folder without weights what its configuration says,
/// with a problem. Throws Error if the model's configuration or weights cannot be read; what is wrong with the drafter
/// or the tokenizer stands in the report.
Json inspect_model(const Ops& ops, const std::filesystem::path& model,
                   const std::optional<std::filesystem::path>& drafter, const DflashOptions& drafting,
                   int32_t sequences);

/// Facts of a drafter folder alone.
Json inspect_drafter(const std::filesystem::path& drafter);

/// The self-test as a member of a report.
Json self_test_json(const DrafterCheck& check);

/// A report as lines for people.
std::string report_text(const Json& report);

}  // namespace ashlar
