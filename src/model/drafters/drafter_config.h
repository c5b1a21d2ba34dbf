// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the configurations of drafters of all kinds have in common.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/json.h"
#include "model/config.h"

namespace ashlar {

/// `speculators_model_type` of drafters that are read by read_eagle3_config(); the others are of the DFlash family.
inline constexpr const char* kEagle3Types[] = {"eagle3", "peagle"};

/// How a drafter's file names the target's layers whose hidden states it reads: conventions differ in where they begin.
struct LayerIds {
  std::string key;    ///< of config.json or of a GGUF file's metadata
  int32_t first = 0;  ///< the id of what the target's first layer leaves
};

/// The configuration of a drafter, in the words of config.json.
struct DrafterWords {
  Json words;
  std::string where;  ///< for errors
  bool from_gguf = false;
};

/// Of a folder its config.json, of a GGUF file what `of_gguf` makes of its metadata. `kind`: what is expected there,
/// with its article ("a DFlash"). Throws Error("drafter", ...) without such a file or for a folder of quantised
/// weights.
DrafterWords read_drafter_words(const std::filesystem::path& folder, const std::string& kind,
                                Json (*of_gguf)(const std::filesystem::path& file));

/// The target's layers that are listed under `key` of `fields`, counted from 0; `first` is the id of the first one.
/// `layers`: how many the target has; 0: not stated. Throws Error("drafter", ...) where there is no such layer.
std::vector<int32_t> read_layer_ids(const JsonFields& fields, const std::string& key, int32_t first, int32_t layers);

/// Gives the layers of a GGUF file their names, and what the file says of their rope beyond `words`.
void use_gguf_layers(const std::filesystem::path& file, const std::string& architecture, StackConfig& stack);

/// What a drafter must find in its target; throws Error("drafter", ...) naming both folders where it does not.
class DrafterFit {
 public:
  /// Refuses targets that fill blocks.
  DrafterFit(const std::filesystem::path& drafter, const ModelConfig& target);

  /// `what`: a size as a sentence says it: "a vocabulary of".
  void expect(const std::string& what, int64_t wants, int64_t has) const;
  /// That the target has the layers whose hidden states it reads, and this hidden size.
  void expect_states(std::span<const int32_t> aux_layers, int32_t hidden) const;

 private:
  [[noreturn]] void fail(const std::string& what, int64_t wants, int64_t has, const std::string& hint = {}) const;

  const std::filesystem::path& drafter_;
  const ModelConfig& target_;
};

}  // namespace ashlar
