// SPDX-License-Identifier: Apache-2.0
#pragma once
// EAGLE-3 heads as a training run knows them: one layer of the kind that SpecForge trains, whose embedding and head are
// the target's.

#include "model/drafters/eagle3_config.h"
#include "train/run/trained_drafter.h"

namespace ashlar {

struct DrafterWishes;

/// A head with the target's widths, heads and rope base and a dense MLP, which reads after the layers that wishes name,
/// or the usual three. Throws Error("train", ...) as design_drafter() does.
Eagle3Config design_eagle3(const ModelConfig& target, const DrafterWishes& wishes);

/// Throws Error("train", ...) if a head, which fit_to_target() accepts, has parts that are not trained: more layers, a
/// mask, biases, scaled rope, or norms at other places.
void check_trainable(const Eagle3Config& head);

/// The tokens that a head drafts, of its folder, ascending; empty: all. Throws Error("train", ...) if its tensors have
/// other names than those of SpecForge, or if the tokens do not ascend.
std::vector<int32_t> read_draft_ids(const Eagle3Config& head);

/// What config.json of such a head says, in SpecForge's words: reading it gives the configuration again.
Json specforge_config(const Eagle3Config& head);

/// `draft_ids`: as TrainShape has them; empty where the head drafts fewer tokens: the data will choose them.
TrainedDrafter eagle3_drafter(const Eagle3Config& head, std::vector<int32_t> draft_ids = {});

}  // namespace ashlar
