// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layers that predict further tokens (MTP) as a training run knows them: the target's own, or a new one next to it.

#include "model/drafters/mtp_config.h"
#include "train/run/trained_drafter.h"

namespace ashlar {

struct DrafterWishes;

/// The target's own layer, if its checkpoint holds one, or one with the target's widths, heads and rope base and a
/// dense MLP. Throws Error("train", ...) as design_drafter() does, and for a layer of the target's with parts that are
/// not trained.
MtpFolderConfig design_mtp(const ModelConfig& target, const DrafterWishes& wishes);

/// Throws Error("train", ...) if a layer, which check_fit() accepts, has parts that are not trained.
void check_trainable(const MtpFolderConfig& layer);

/// What config.json says of a layer: reading it gives the configuration again.
Json mtp_words(const MtpFolderConfig& layer);

/// A layer that designs left without a folder starts from random weights, another one from its folder's.
TrainedDrafter mtp_drafter(const MtpFolderConfig& layer, const ModelConfig& target);

}  // namespace ashlar
