// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_status.h"

#include "base/error.h"

namespace ashlar::cuda {
namespace {

std::string advice(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation: {
      size_t free = 0, total = 0;
      std::string found;
      if (cudaMemGetInfo(&free, &total) == cudaSuccess)
        found = std::to_string(free >> 20) + " of " + std::to_string(total >> 20) + " MiB are free; ";
      return "; " + found + "choose a smaller context or cache, a smaller model, or end other programs on the GPU";
    }
    case cudaErrorDevicesUnavailable:
      return "; another program has this GPU for itself, or its mode forbids programs: use --device cpu, or another "
             "GPU as with --device cuda:1";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      return "; the driver is too old for the kernels of this build: update it";
    default:
      return "";
  }
}

/// After which every call of this process fails, and what may help; empty: the next call may succeed.
std::string end_of_all(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorExternalDevice:
#if CUDART_VERSION >= 12080
    case cudaErrorTensorMemoryLeak:
#endif
      return "; a kernel failed, now or shortly before: the program must be started again; if it happens again, it is "
             "a bug: please report it";
    case cudaErrorECCUncorrectable:
      return "; the GPU's memory is damaged: the program must be started again; if it happens again, reset the GPU or "
             "use another";
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
#endif
      return "; the GPU is lost to this process: the program must be started again";
    default:
      return "";
  }
}

}  // namespace

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // the next check is not about this one
  const std::string what =
      std::string(call) + " failed: " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
  if (const std::string end = end_of_all(status); !end.empty()) throw DeviceLost("cuda", what + end);
  throw Error("cuda", what + advice(status));
}

void check_launch(std::string_view op) { check(cudaGetLastError(), op); }

void enter_device(int32_t device) {
  // The runtime's own word, since libraries may have changed it. It costs tens of nanoseconds.
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == device) return;
  check(cudaSetDevice(device), "cudaSetDevice");
}

}  // namespace ashlar::cuda
