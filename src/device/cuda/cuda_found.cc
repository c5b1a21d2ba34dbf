// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_found.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
namespace {

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

const char* const kUseCpu = ", or use --device cpu";

/// Why this process finds no GPU, and how many GPUs otherwise.
struct Count {
  int n = 0;
  bool has_driver = true;
  std::string problem = {};
};

Count count_devices() {
  Count out;
  const cudaError_t status = cudaGetDeviceCount(&out.n);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorStubLibrary) {
    cudaGetLastError();
    int driver = 0;
    cudaDriverGetVersion(&driver);
    out.has_driver = driver != 0;
    out.problem = driver == 0 ? "no NVIDIA driver is installed here: install one"
                              : "the NVIDIA driver supports CUDA " + version(driver) + ", and this build needs " +
                                    version(CUDART_VERSION) + ": update the driver";
  } else if (status == cudaErrorNoDevice || (status == cudaSuccess && out.n == 0)) {
    cudaGetLastError();
    out.has_driver = false;
    out.problem = "the NVIDIA driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it)";
  } else {
    check(status, "cudaGetDeviceCount");
  }
  return out;
}

cudaDeviceProp properties_of(int32_t device) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties;
}

std::string capability(const cudaDeviceProp& properties) {
  return std::to_string(properties.major) + "." + std::to_string(properties.minor);
}

/// Without its name. Empty: it can be used.
std::string problem_of(const cudaDeviceProp& properties) {
  if (properties.major >= 8) return "";
  return "it has compute capability " + capability(properties) + ", and 8.0 or more is needed";
}

/// Free memory of a GPU can be known by what works on it alone.
std::string facts_of(int32_t device, const cudaDeviceProp& properties) {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  enter_device(device);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return std::to_string(free >> 20) + " of " + std::to_string(total >> 20) + " MiB free, driver for CUDA " +
         version(driver) + ", compute capability " + capability(properties);
}

FoundDevice found(int32_t device, bool facts) {
  const std::string number = std::to_string(device);
  // The name of one that does not even say its own is what it is counted as.
  FoundDevice out{device == 0 ? "cuda" : "cuda:" + number, "", "GPU " + number, ""};
  try {
    const cudaDeviceProp properties = properties_of(device);
    out.what = properties.name;
    out.problem = problem_of(properties);
    if (facts && out.problem.empty()) out.facts = facts_of(device, properties);
  } catch (const Error& error) {
    out.problem = error.message();
  }
  return out;
}

}  // namespace

std::vector<FoundDevice> find_gpus(bool facts) {
  Count count;
  try {
    count = count_devices();
  } catch (const Error& error) {
    count.problem = error.message();
  }
  if (!count.problem.empty()) return {{"cuda", count.problem, count.has_driver ? "an NVIDIA GPU" : "", ""}};
  std::vector<FoundDevice> out;
  for (int32_t device = 0; device < count.n; ++device) out.push_back(found(device, facts));
  return out;
}

std::string require_device(int32_t device) {
  const Count count = count_devices();
  if (!count.problem.empty()) throw Error("cuda", count.problem + kUseCpu);
  if (device >= count.n) {
    throw Error("cuda", "there is no GPU of number " + std::to_string(device) + ": the driver shows " +
                            std::to_string(count.n) + ", counted from 0 (CUDA_VISIBLE_DEVICES may hide some)");
  }
  const cudaDeviceProp properties = properties_of(device);
  if (const std::string problem = problem_of(properties); !problem.empty()) {
    throw Error("cuda", std::string(properties.name) + ": " + problem + kUseCpu);
  }
  enter_device(device);
  return "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
}

}  // namespace ashlar::cuda
