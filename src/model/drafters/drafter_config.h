// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the configurations of drafters of all kinds have in common.

#include <filesystem>
#include <span>

#include "io/json.h"
#include "model/config.h"

namespace ashlar {

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
  [[noreturn]] void fail(const std::string& what, int64_t wants, int64_t has) const;

  const std::filesystem::path& drafter_;
  const ModelConfig& target_;
};

}  // namespace ashlar
