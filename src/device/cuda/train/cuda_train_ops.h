// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops of training on an NVIDIA GPU, on tensors of fp32, whose products round their factors to TF32, or bf16. Ops
// queue their kernels on one stream and return; what gives the host numbers waits.

#include <memory>

#include "device/device.h"
#include "device/train_ops.h"

namespace ashlar {

/// On the GPU of this number. Throws Error("cuda", ...) where this machine has none that can be used, or lacks cuBLAS,
/// saying what is missing.
std::unique_ptr<TrainOps> make_cuda_train_ops(const DeviceOptions& options, int32_t device);

}  // namespace ashlar
