// SPDX-License-Identifier: Apache-2.0
#pragma once
// What differs between the weights of models.

#include <filesystem>
#include <string>

namespace ashlar {

/// 16 hexadecimal digits of a model's weights: a hash of the sizes of their files and of what lies at some places of
/// them, so that it takes milliseconds. `model`: a GGUF file, or a folder with safetensors. Throws Error("file", ...),
/// and as weight_files().
std::string weights_mark(const std::filesystem::path& model);

}  // namespace ashlar
