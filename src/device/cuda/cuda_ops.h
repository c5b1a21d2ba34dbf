// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops on an NVIDIA GPU: activations in bf16, sums in fp32, keys and values in bf16 or codes. Ops queue their
// kernels on one stream and return; download(), host_view() and linear_statistics() wait.

#include <memory>
#include <string>

#include "device/device.h"
#include "device/ops.h"

namespace ashlar {

/// On the GPU of this number. Throws Error("cuda", ...) where this machine has none that can be used, saying what is
/// missing.
std::unique_ptr<Ops> make_cuda_ops(const DeviceOptions& options, int32_t device);

}  // namespace ashlar
