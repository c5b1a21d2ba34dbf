// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which drafter to train for a target: sizes, layers to read from, the token of masked positions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/drafters/dflash_config.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {

/// What a caller asks for; what is 0 or empty follows the target.
struct DrafterWishes {
  int32_t layers = 0;               ///< 0: default_drafter_layers
  int32_t block_size = 16;          ///< last token included
  std::vector<int32_t> aux_layers;  ///< empty: default_aux_layers
  std::optional<int32_t> mask_id;   ///< none: find_mask_token
  std::string head;                 ///< of designed_heads(); empty: the plain one, or what a drafter has already
  int32_t window = 0;               ///< positions that each layer sees at most; 0: all
  int32_t draft_vocab = 0;          ///< tokens that are drafted, of heads that may have fewer; 0: the target's
};

/// A sixth of the target's layers, at most 5: what published drafters of targets with 30 layers and more have, and
/// shallower ones for small targets, since five layers would take as long as such a target itself.
int32_t default_drafter_layers(int32_t target_layers);

/// `n` layers evenly from layer 1 to layer N - 3, both included, rounded half to even, as z-lab has it; each once. Of
/// fewer than five layers the last but one alone.
std::vector<int32_t> default_aux_layers(int32_t target_layers, int32_t n = 5);

/// The first of mask_tokens(). Throws Error("train", ...) if there is none.
int32_t find_mask_token(const Tokenizer& tokenizer, int32_t vocab, const std::vector<int32_t>& stop_ids);

/// A drafter with the target's widths, heads and rope base, attention to whole blocks, and a dense MLP of the target's
/// width, or of three times the hidden size where the target's is a mixture. Throws Error("train", ...) for a target
/// that no drafter is for, or for wishes that cannot be.
DflashConfig design_drafter(const ModelConfig& target, const DrafterWishes& wishes, int32_t mask_id);

/// Throws Error("train", ...) if a drafter, which check_fit() accepts, has parts that are not trained: windows below a
/// block, biases, a vocabulary of its own, scaled embeddings or logits, slots that predict the next position, a gated
/// head, or one that is none of designed_heads().
void check_trainable(const DflashConfig& drafter);

}  // namespace ashlar
