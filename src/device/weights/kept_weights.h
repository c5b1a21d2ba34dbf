// SPDX-License-Identifier: Apache-2.0
#pragma once
// The choices of --weights by their names.

#include <optional>
#include <string_view>

#include "device/weights/weight_source.h"

namespace ashlar {

struct NamedKeptWeights {
  std::string_view name;
  KeptWeights weights;
};
inline constexpr NamedKeptWeights kKeptWeights[] = {{"auto", KeptWeights::kAuto},
                                                    {"int4", KeptWeights::kInt4},
                                                    {"int8", KeptWeights::kInt8},
                                                    {"fp8", KeptWeights::kFp8},
                                                    {"exact", KeptWeights::kExact}};
/// For messages.
inline constexpr const char* kKeptWeightsNames = "auto, int4, int8, fp8 or exact";

inline std::optional<KeptWeights> kept_weights_of(std::string_view name) {
  for (const NamedKeptWeights& named : kKeptWeights) {
    if (named.name == name) return named.weights;
  }
  return std::nullopt;
}

constexpr std::string_view name_of(KeptWeights weights) {
  for (const NamedKeptWeights& named : kKeptWeights) {
    if (named.weights == weights) return named.name;
  }
  return "";
}

}  // namespace ashlar
