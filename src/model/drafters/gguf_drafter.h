// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafters in GGUF files: their metadata in the words of config.json, and llama.cpp's names of their tensors. Source of
// keys, names and their meaning: the Python package gguf, llama.cpp's conversion/ and src/models/{dflash,eagle3}.cpp.

#include <filesystem>
#include <string>

#include "io/json.h"
#include "model/binding/tensor_names.h"
#include "model/drafters/drafter_config.h"

namespace ashlar {

/// Whether the path is a GGUF file whose metadata say that it is of this architecture.
bool is_gguf_of(const std::filesystem::path& path, const std::string& architecture);

/// What config.json of a DFlash drafter (with any head) would say, in z-lab's form. How many layers the target has is
/// not known there.
Json words_of_gguf_dflash(const std::filesystem::path& file);

/// The same of an EAGLE-3 drafter, in the original form.
Json words_of_gguf_eagle3(const std::filesystem::path& file);

/// What the metadata themselves say of the layers that are read.
inline const LayerIds kGgufLayerIds = {"target_layers", 1};

/// Names of tensors in such files, and of those in a layer.
DrafterNames names_of_gguf_drafter();

}  // namespace ashlar
