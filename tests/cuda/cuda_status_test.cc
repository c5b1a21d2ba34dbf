// SPDX-License-Identifier: Apache-2.0
// Errors of the CUDA runtime: which of them end the process. Needs no GPU.

#include "device/cuda/cuda_status.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace ashlar::testing {
namespace {

bool is_lost_after(cudaError_t status) {
  try {
    cuda::check(status, "the call");
  } catch (const DeviceLost& error) {
    EXPECT_NE(std::string(error.what()).find("[cuda] the call failed: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("must be started again"), std::string::npos) << error.what();
    return true;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[cuda] the call failed: "), std::string::npos) << error.what();
  }
  return false;
}

TEST(CudaStatus, WhatNoLaterCallSurvivesIsALostDevice) {
  EXPECT_NO_THROW(cuda::check(cudaSuccess, "the call"));
  for (const cudaError_t status :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorAssert, cudaErrorMisalignedAddress,
        cudaErrorHardwareStackError, cudaErrorIllegalInstruction, cudaErrorInvalidPc, cudaErrorInvalidAddressSpace,
        cudaErrorLaunchTimeout, cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable}) {
    EXPECT_TRUE(is_lost_after(status)) << cudaGetErrorName(status);
  }
  for (const cudaError_t status : {cudaErrorMemoryAllocation, cudaErrorInvalidValue, cudaErrorLaunchOutOfResources,
                                   cudaErrorNoKernelImageForDevice, cudaErrorStreamCaptureInvalidated}) {
    EXPECT_FALSE(is_lost_after(status)) << cudaGetErrorName(status);
  }
}

}  // namespace
}  // namespace ashlar::testing
