// SPDX-License-Identifier: Apache-2.0
#pragma once
// The usual mistakes of a DFlash drafter's config.json, undone one at a time. None of them breaks anything: they only
// make drafts bad, so trying what else could have been meant is how one is found.

#include <span>
#include <string>
#include <vector>

#include "model/drafters/dflash_config.h"

namespace ashlar {

struct DflashRepair {
  std::string what;  ///< what is different, as a person would write it into config.json
  DflashConfig config;
};

/// Each differs from `config` in one thing that nothing in the weights shows: layers read one lower, one higher or in
/// ascending order; the other slot convention; one of `mask_tokens`; the target's rope or a usual base without scaling;
/// the other visibility inside the block.
std::vector<DflashRepair> usual_repairs(const DflashConfig& config, const ModelConfig& target,
                                        std::span<const int32_t> mask_tokens);

}  // namespace ashlar
