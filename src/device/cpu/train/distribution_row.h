// SPDX-License-Identifier: Apache-2.0
#pragma once
// A row of logits against another one: what a drafter learns from the target's distributions.

#include "device/cpu/train/train_kernels.h"

namespace ashlar::cpu {

struct DistributionRow {
  float* logits = nullptr;  ///< of the drafter; become the gradient of the loss
  float* target = nullptr;  ///< the target's logits; become its probabilities
  float* room = nullptr;    ///< as many floats
};
TokenLoss distribution_row(const TrainKernels& kernels, DistributionLoss loss, int32_t n, const DistributionRow& row);

}  // namespace ashlar::cpu
