#pragma once
// What the configurations of drafters of all kinds have in common.

#include <filesystem>
#include <span>

#include "io/json.h"
#include "model/config.h"

namespace ashlar {

/// config.json of a drafter folder. `kind`: what is expected there, with its article ("a DFlash"). Throws
/// Error("drafter", ...) without such a file or for quantised weights.
Json read_drafter_json(const std::filesystem::path& folder, const std::string& kind);

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
