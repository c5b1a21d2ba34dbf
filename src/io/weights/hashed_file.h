// SPDX-License-Identifier: Apache-2.0
#pragma once
// Safetensors files that say what they hold by a hash, so that damage on a disk is found.

#include <cstdint>
#include <map>
#include <string>

#include "io/weights/safetensors.h"

namespace ashlar {

/// The metadata that has the hash: XXH64 of all numbers in their order in the file, in 16 hexadecimal digits.
inline constexpr const char* kContentHash = "content_xxh64";

/// The seed of that hash: what else the metadata say.
uint64_t hash_of_metadata(const std::map<std::string, std::string>& metadata);

/// What is wrong with the file: found and expected. Empty if nothing is, or if it has no hash. Reads all of it.
std::string damage_of(const SafetensorsFile& file);

}  // namespace ashlar
