// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configuration of a DFlash drafter folder, in z-lab's or in the speculators form.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/drafters/drafter_config.h"

namespace ashlar {

/// A head that chooses among candidates.
struct SelectorConfig {
  int32_t rank = 0;   ///< of a token's codes
  int32_t top_k = 0;  ///< candidates of a position
};

/// A head that adds to a position's logits what the token before it says.
struct MarkovConfig {
  int32_t rank = 0;    ///< of a token's code
  bool gated = false;  ///< by the position's hidden state
  /// Columns of the confidence head's product, which says how likely a draft is accepted; 0: there is none.
  int32_t confidence_width = 0;
};

/// A head that adds to a position's logits what all tokens of the block before it say.
struct DominoConfig {
  int32_t width = 0;  ///< of what the product over the vocabulary reads
  int32_t state = 0;  ///< numbers that are remembered of the tokens
  int32_t pure = 0;   ///< drafts at the begin of the block to whose logits nothing is added
};

/// A head that adds to the logits of all positions what the newest drafts before them say, in rounds.
struct RefinerConfig {
  int32_t rank = 0;    ///< of a token's code, and of all that is between
  int32_t inner = 0;   ///< of its MLP
  int32_t rounds = 0;  ///< at most
};

/// A head that chooses among candidates by a small transformer over all of a block.
struct LatticeConfig {
  int32_t top_k = 0;   ///< candidates of a position
  int32_t hidden = 0;  ///< of the transformer, with its layers and heads
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t inner = 0;      ///< of its MLPs
  int32_t factor = 0;     ///< numbers of the vectors that a score is the cosine of
  float vector_eps = 0;   ///< least length that these are divided by
  float logit_scale = 0;  ///< multiplies the cosine
};

struct DflashConfig {
  StackConfig stack;
  DrafterNames names;
  std::filesystem::path folder;     ///< or GGUF file
  int32_t block_size = 0;           ///< last token included
  std::vector<int32_t> aux_layers;  ///< target layers whose output feeds the drafter, in the order of fc's columns
  LayerIds ids = {"target_layer_ids", 0};  ///< how the file says which
  int32_t target_layers = 0;               ///< 0: not stated
  int32_t target_hidden = 0;
  int32_t vocab = 0;        ///< of the target
  int32_t draft_vocab = 0;  ///< of the drafter's own head; vocab if it has none
  int32_t mask_id = 0;
  int32_t max_positions = 0;
  bool sample_from_anchor = false;         ///< slot k predicts position start + k + 1 instead of start + k
  std::string head = "dflash";             ///< what makes tokens of the block's hidden states: one of draft_heads()
  std::optional<SelectorConfig> selector;  ///< of heads that choose among candidates
  std::optional<LatticeConfig> lattice;    ///< the same
  std::optional<MarkovConfig> markov;      ///< of heads that choose one draft after the other
  std::optional<DominoConfig> domino;      ///< the same
  std::optional<RefinerConfig> refiner;    ///< of heads that choose all drafts of a block again in rounds
  bool may_own_vocabulary = false;         ///< may bring embed_tokens and lm_head
  bool tied_head = false;                  ///< an embedding of its own without a head is the head as well
  bool own_vocabulary = false;             ///< brings embed_tokens, lm_head, d2t and t2d (speculators)
  float embedding_scale = 1.0F;
  float output_multiplier = 1.0F;
  float softcap = 0.0F;  ///< logits become softcap * tanh(logits / softcap); 0: off

  /// Whether its drafts are chosen one after the other.
  bool in_turn() const { return markov.has_value() || domino.has_value(); }
  /// Whether they depend on all drafts before them, so that they are a chain.
  bool drafts_chains() const { return in_turn() || refiner.has_value(); }
  /// Rows of a verify pass at the trained block size: the last token and every draft.
  int32_t max_width() const { return block_size + (sample_from_anchor ? 1 : 0); }
};

/// Names of the heads that are known: "dflash", by itself the highest logit of each position, and what came after it.
std::vector<std::string> draft_heads();

/// True if the folder's config.json, or the GGUF file, says it is a drafter of this kind.
bool is_dflash_folder(const std::filesystem::path& folder);

/// Throws Error("drafter", ...) if the file is not a DFlash drafter or asks for what is not supported.
DflashConfig read_dflash_config(const std::filesystem::path& folder);

/// Throws Error("drafter", ...) naming both folders if the drafter was not made for this target.
void check_fit(const DflashConfig& drafter, const ModelConfig& target);

}  // namespace ashlar
