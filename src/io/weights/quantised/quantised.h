// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checkpoints that are already quantised: what their configuration says becomes of tensors with numbers, scales and
// zero points a tensor MODULE.weight, which means what the dequantisation of its publisher gives (in fp32, without the
// rounding to 16 bits that follows there). A format is a file in this folder and a row in quantised.cc.

#include <filesystem>
#include <map>
#include <string>

#include "io/weights/stored_tensor.h"

namespace ashlar {

using TensorsByName = std::map<std::string, const StoredTensor*>;

/// What was made of the tensors of a folder.
struct Quantised {
  std::string description;                   ///< "AWQ, 4 bits, groups of 128"; empty: nothing is quantised
  std::map<std::string, StoredTensor> made;  ///< views of the same memory
};

/// Replaces quantised tensors of `tensors` by what they mean, where config.json or a file of its own says that the
/// folder has any. Modules that a configuration leaves out are those whose tensors are whole: names and patterns of it
/// need no reading. The tensors point into what is returned. Throws Error("quantised", ...) for a method that is not
/// known, settings that cannot be, a tensor that is missing or has another type or shape, and indices out of range.
Quantised read_quantised(const std::filesystem::path& folder, TensorsByName& tensors);

}  // namespace ashlar
