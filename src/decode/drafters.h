// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafters by their folders: what each is and takes, known before anything is loaded. A new kind is a line in
// drafters.cc.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "decode/propose/dflash.h"
#include "model/config.h"

namespace ashlar {

/// What is known of a drafter from its configuration.
struct DrafterFacts {
  std::string method;
  std::filesystem::path folder;
  StackConfig stack;
  int32_t max_width = 0;            ///< rows of a verify span at most, as the options say
  int64_t aux_width = 0;            ///< columns of the target's hidden states that it reads
  int32_t draft_vocab = 0;          ///< columns of its logits
  std::vector<int32_t> aux_layers;  ///< after which it reads them; empty: follows from the target
  int32_t vocab = 0;                ///< of the target
  bool own_vocabulary = false;      ///< an embedding and a head of its own
  std::string tensors;        ///< what names of its tensors begin with, of those in its folder; empty: all are its own
  bool reads_before = false;  ///< Proposer::reads_before()
  int32_t block_size = 0;     ///< of one that fills blocks, as all up to `refiner`
  int32_t mask_id = -1;
  bool sample_from_anchor = false;
  std::string head;  ///< how it makes drafts of a block's hidden states, as one of the next five
  std::optional<SelectorConfig> selector;
  std::optional<LatticeConfig> lattice;
  std::optional<MarkovConfig> markov;
  std::optional<DominoConfig> domino;
  std::optional<RefinerConfig> refiner;
  int64_t head_workspace = 0;   ///< activations of that head at most, where they are many
  int64_t window_pages = 0;     ///< of its planes, where it looks at a window; 0: as many as the cache has pages
  int64_t spare_pages = 0;      ///< of the target's planes, for its trees
  int64_t own_spare_pages = 0;  ///< of its own, for the same
};

/// Whether a folder or GGUF file is a drafter's: it is of no use as a model.
bool is_drafter_folder(const std::filesystem::path& folder);

/// The method a drafter folder is for, or that of a model's own layers where the folder is a model that drafts itself.
/// Throws Error("drafter", ...) if it is for none.
std::string method_of_drafter(const std::filesystem::path& folder);

/// Whether such a drafter writes the drafts of a path one after another.
bool drafts_one_by_one(const std::string& method);

/// Throws Error("drafter", ...) if the folder is no drafter, or none for this target. `sequences`: that run at once.
DrafterFacts drafter_facts(const std::filesystem::path& folder, const ModelConfig& target, const DflashOptions& options,
                           int32_t sequences);
/// The same of a drafter folder by itself.
DrafterFacts drafter_facts(const std::filesystem::path& folder);

}  // namespace ashlar
