// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model in a GGUF file is: its metadata in the words of config.json, and llama.cpp's names of the tensors.
// Source of keys and names: the Python package gguf (constants.py, tensor_mapping.py).

#include <filesystem>
#include <string>

#include "model/config.h"

namespace ashlar {

/// Reads the configuration of a GGUF file. Throws Error("gguf", ...) for an architecture that is not supported, a
/// missing key or one that would change the result, and Error("config", ...) for values that cannot be.
ModelConfig read_gguf_config(const std::filesystem::path& file);

/// What a file of an architecture that is supported is where it holds layers that draft (MTP) and none of their
/// model's, and what to do about it; empty: another file. Throws Error as read_gguf_config does.
std::string gguf_layers_alone(const std::filesystem::path& file);

}  // namespace ashlar
