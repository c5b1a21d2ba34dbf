// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafters of the DFlash family as a training run knows them.

#include "model/drafters/dflash_config.h"
#include "train/run/trained_drafter.h"

namespace ashlar {

/// The trained part of a drafter's form, for check_trainable() ones.
TrainShape train_shape(const DflashConfig& drafter);

TrainedDrafter block_drafter(const DflashConfig& drafter);

}  // namespace ashlar
