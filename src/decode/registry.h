// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decoding methods by name. A new one is a file next to this and a line in registry.cc; the equivalence suite runs over
// all.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decode/block/block_decoder.h"
#include "decode/decoder.h"
#include "decode/drafters.h"
#include "decode/propose/ngram_drafts.h"
#include "decode/propose/simulated_drafts.h"
#include "model/drafters/eagle3_config.h"
#include "model/model.h"

namespace ashlar {

/// Which method decodes, and with what.
struct DecoderSpec {
  std::string method;             ///< empty: the model's own way, without a drafter
  std::filesystem::path drafter;  ///< its folder, for methods that have one; the model's own where it drafts itself
  DflashOptions dflash;           ///< width and window count for every drafter
  BlockOptions block = {};
  NgramUse ngram = NgramUse::kWherePaying;  ///< for methods that draft
  int32_t ngram_width = 16;  ///< most rows of a span whose drafts are n-gram drafts, where nothing else drafts
  std::optional<DflashConfig> dflash_config = {};  ///< instead of what the folder's config.json says, or the file's
  std::optional<Eagle3Config> eagle3_config = {};  ///< the same for that kind
  std::shared_ptr<const SimulatedDrafts> simulated =
      {};                                   ///< drafts of a wished quality, for timing; null: the drafter's own
  std::vector<int32_t> hidden_layers = {};  ///< after which requests may ask for hidden states; empty: none are kept
};

/// Makes a decoder for `model`, which must outlive it. Throws Error for an unknown method or a drafter that does not
/// fit.
std::unique_ptr<Decoder> make_decoder(Model& model, const DecoderSpec& spec);

std::vector<std::string> decoder_names();

/// Weights that the method's drafter reads for a cycle of drafts, in bytes; 0 without one. Loads it to see.
int64_t drafter_bytes_read(const Model& model, const DecoderSpec& spec);

/// What else a drafter's configuration could have meant, tried where it drafts badly.
struct DrafterRepair {
  std::string setting;  ///< the key that would have to be different
  std::string what;     ///< what would have to be different, in the words of its config.json
  DecoderSpec spec;
};

/// The usual mistakes in the configuration of the drafter of `spec`, undone one at a time; none for methods that have
/// no such. `mask_tokens`: what else may stand at masked positions.
std::vector<DrafterRepair> usual_repairs(const Model& model, const DecoderSpec& spec,
                                         std::span<const int32_t> mask_tokens);

}  // namespace ashlar
