// SPDX-License-Identifier: Apache-2.0
// GLM-4 of 2025, dense.

#include "base/error.h"
#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

void complete(const GgufKeys& keys, const Checkpoint&, Json&) {
  keys.require("nextn_predict_layers", 0);
  const std::string sections = keys.full("rope.dimension_sections");
  if (!keys.file().has_array(sections)) return;
  throw Error("gguf", keys.file().path().string() + ": \"" + sections +
                          "\": expected nothing (models that see rotate by sections, and are not supported)");
}

}  // namespace

const GgufArchitecture kGgufGlm4 = {.name = "glm4",
                                    .family = "glm4",
                                    .names = interleaved(fused_gate_up()),
                                    .complete = complete,
                                    .rotates_part = true};

}  // namespace ashlar
