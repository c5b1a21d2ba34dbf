// SPDX-License-Identifier: Apache-2.0
// Gates that multiply what another part of a layer answered.

#include "../kernels/device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) sigmoid_gate_kernel(Matrix gate, Matrix x) {
  begin_kernel();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols; i += kThreads) {
    const float by = sigmoid(load(gate.data, blockIdx.x * gate.stride + (gate.cols == 1 ? 0 : i), gate.is_f32));
    const int64_t at = blockIdx.x * x.stride + i;
    store(x.data, at, x.is_f32, load(x.data, at, x.is_f32) * by);
  }
}

__global__ void __launch_bounds__(kThreads) gelu_gate_kernel(Matrix gate, Matrix x) {
  begin_kernel();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols; i += kThreads) {
    const float g = load(gate.data, blockIdx.x * gate.stride + i, gate.is_f32);
    const int64_t at = blockIdx.x * x.stride + i;
    store(x.data, at, x.is_f32, load(x.data, at, x.is_f32) * gelu(g));
  }
}

}  // namespace

void sigmoid_gate(cudaStream_t stream, const Matrix& gate, const Matrix& x) {
  start(stream, {rows_of(x), kThreads}, sigmoid_gate_kernel, gate, x);
}

void gelu_gate(cudaStream_t stream, const Matrix& gate, const Matrix& x) {
  start(stream, {rows_of(x), kThreads}, gelu_gate_kernel, gate, x);
}

}  // namespace ashlar::cuda
