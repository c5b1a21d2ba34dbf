// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that both sides address: it lies on the GPU, and pages move while the host reads or writes them.

#include "device/cuda/cuda_status.h"
#include "device/ops.h"

namespace ashlar::cuda {

/// Zeroed by the GPU of this number, which so has the pages. The host may touch it when nothing that was queued may
/// still do.
class SharedBuffer final : public Buffer {
 public:
  SharedBuffer(int32_t device, size_t bytes) : size_(bytes) {
    void* data = nullptr;
    enter_device(device);
    check(cudaMallocManaged(&data, bytes > 0 ? bytes : 1), "cudaMallocManaged of " + std::to_string(bytes) + " bytes");
    data_ = static_cast<std::byte*>(data);
    const cudaError_t zeroed = cudaMemset(data_, 0, bytes);
    const cudaError_t done = zeroed == cudaSuccess ? cudaDeviceSynchronize() : zeroed;
    if (done != cudaSuccess) cudaFree(data_);
    check(done, "cudaMemset");
  }
  ~SharedBuffer() override { cudaFree(data_); }  // waits for what uses it
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  std::byte* data() override { return data_; }
  size_t size() const override { return size_; }

 private:
  size_t size_;
  std::byte* data_ = nullptr;
};

}  // namespace ashlar::cuda
