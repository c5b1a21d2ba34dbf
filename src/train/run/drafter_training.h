// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trainer of drafters as a training run takes it.

#include "device/device.h"
#include "model/model.h"
#include "train/run/trainer.h"

namespace ashlar {

/// Trainers for drafters of this target, which outlives them: with the target's embedding and head as its files have
/// them, in fp32, and random first weights. `device`: of the training, with these options. `replicas`: as
/// DrafterTrainer has them.
MakeTrainer drafter_training(const Model& target, const std::string& device, const DeviceOptions& options,
                             AllReduce* replicas = nullptr);

}  // namespace ashlar
