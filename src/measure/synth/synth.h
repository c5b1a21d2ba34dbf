// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models of random weights, whose answers mean nothing: for measuring what steps of a shape take.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ashlar {

struct SynthOptions {
  std::string shape;             ///< shapes.h
  std::filesystem::path folder;  ///< a new one, or an empty one
  int32_t layers = 0;            ///< in place of the shape's own; 0: as many as that has
  /// In FOLDER-KIND, of these kinds (drafter_shapes.h).
  std::vector<std::string> drafters;
  int32_t drafter_layers = 0;  ///< of each; 0: as many as are usual
  uint64_t seed = 0;
  bool force = false;                   ///< models that the folders hold are replaced (made_folder.h); other files stay
  int64_t shard_bytes = 4'000'000'000;  ///< of a file with weights, or one tensor
  std::function<bool()> stopped = {};   ///< asked often; true ends it with an Error
};

struct SynthResult {
  struct Made {
    std::filesystem::path folder;
    int64_t parameters = 0;
  };
  Made model;
  std::vector<Made> drafters;  ///< as the options name them
  int64_t bytes = 0;           ///< of all weights
};

using SynthProgress = std::function<void(int64_t bytes, int64_t all)>;

/// Writes config.json, a tokenizer of bytes with a plain chat template, and weights in bf16: matrices are uniform, with
/// a variance of 1 / columns, so that what enters a layer keeps its size; vectors are ones, whatever they are (of a
/// norm that adds one to its weights, too), biases zeros. Where the family has a layer that drafts and the
/// configuration does not say that there is none, it is made too; a head for a part of the vocabulary is for its first
/// tokens. A tensor is a function of seed, name and shape. Throws Error("synth", ...) for an unknown shape, a folder
/// with files in it, too small a vocabulary, a disk with too little room, or if it was stopped, and what loading
/// throws; then nothing of it stays, and what was to be replaced does, unless the disk had no room for both.
SynthResult synthesize(const SynthOptions& options, const SynthProgress& progress = {});

/// A tokenizer.json of 256 bytes and a few special tokens, in the byte-level form of GPT-2.
std::string byte_tokenizer();
inline constexpr int32_t kByteTokenizerTokens = 260;

}  // namespace ashlar
