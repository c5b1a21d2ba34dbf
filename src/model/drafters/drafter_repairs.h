// SPDX-License-Identifier: Apache-2.0
#pragma once
// The usual mistakes in a drafter's configuration, undone one at a time. None of them breaks anything: they only make
// drafts bad, so trying what else could have been meant is how one is found.

#include <span>
#include <string>
#include <vector>

#include "model/drafters/dflash_config.h"
#include "model/drafters/eagle3_config.h"

namespace ashlar {

template <class Config>
struct ConfigRepair {
  std::string setting;  ///< the key that is different
  std::string what;     ///< what is different there, as a person would write it into the file
  Config config;
};

/// Each differs from `config` in one thing that nothing in the weights shows: layers read one lower, one higher or in
/// ascending order; the other slot convention; one of `mask_tokens`; the target's rope or a usual base without scaling;
/// the other visibility inside the block.
std::vector<ConfigRepair<DflashConfig>> usual_repairs(const DflashConfig& config, const ModelConfig& target,
                                                      std::span<const int32_t> mask_tokens);

/// The same of an EAGLE-3 drafter that fits `target` (fit_to_target()): its layers; the residual and what is fed back
/// with their norm or without; one of `mask_tokens` if it has a mask; its rope.
std::vector<ConfigRepair<Eagle3Config>> usual_repairs(const Eagle3Config& config, const ModelConfig& target,
                                                      std::span<const int32_t> mask_tokens);

}  // namespace ashlar
