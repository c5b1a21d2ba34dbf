#pragma once
// Calls of the CUDA runtime, checked.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar::cuda {

/// Throws Error("cuda", ...) unless `status` is success: which call it was, what the driver says, and what to do.
void check(cudaError_t status, std::string_view call);
/// The same for the kernels launched since the last check.
void check_launch(std::string_view op);

/// Throws Error("cuda", ...) saying what is missing (driver, device, compute capability) for this process to use a GPU.
/// Returns what runs kernels: "sm_90".
std::string require_device();

}  // namespace ashlar::cuda
