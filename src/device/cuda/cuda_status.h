// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls of the CUDA runtime, checked.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar::cuda {

/// Throws Error("cuda", ...) unless `status` is success: which call it was, what the driver says, and what to do.
/// DeviceLost where every further call would fail as well, as after a kernel that failed; not where memory ran out.
void check(cudaError_t status, std::string_view call);
/// The same for the kernels launched since the last check.
void check_launch(std::string_view op);

/// Makes the calling thread, which has its own, work on this GPU: what it launches and allocates is there.
void enter_device(int32_t device);

}  // namespace ashlar::cuda
