// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPUs that this process can use, and what is missing where it cannot.

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace ashlar::cuda {

/// GPUs that the driver shows, or one entry that says why there is none (device/device.h).
std::vector<FoundDevice> find_gpus(bool facts);

/// Throws Error("cuda", ...) saying what is missing (driver, device, compute capability) for this process to use the
/// GPU of this number. Returns what runs kernels: "sm_90". The calling thread works on it from now on.
std::string require_device(int32_t device);

}  // namespace ashlar::cuda
