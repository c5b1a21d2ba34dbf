// SPDX-License-Identifier: Apache-2.0
// Gated delta nets and gates.

#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/recurrent/delta_net.h"

namespace ashlar::cuda {

void CudaOps::gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) {
  const DeltaShape& shape = net.shape;
  ASHLAR_CHECK(in.cols == shape.projected_width() && out.cols == shape.v_width());
  ASHLAR_CHECK(in.rows == net.rows.n && out.rows == net.rows.n && shape.k_dim <= kMaxHeadDim);
  if (net.rows.n == 0) return;
  DeltaNetCall call = {state_rows(net.rows, net.states), matrix_of(in), matrix_of(out)};
  call.n_k_heads = shape.n_k_heads;
  call.n_v_heads = shape.n_v_heads;
  call.k_dim = shape.k_dim;
  call.v_dim = shape.v_dim;
  call.taps = shape.taps;
  call.channels = shape.channels();
  call.tap_weights = net.weights.taps;
  call.decay = net.weights.decay;
  call.bias = net.weights.bias;
  call.norm = net.weights.norm;
  call.eps = net.weights.eps;
  call.outputs_by_turns = shape.outputs_by_turns;
  const auto rows = static_cast<size_t>(call.rows);
  const size_t prepared = rows * static_cast<size_t>(call.prepared_row().floats()) * sizeof(float);
  auto* const memory = static_cast<char*>(prepared_rows_.reserve(prepared + rows * sizeof(int32_t)));
  call.prepared = reinterpret_cast<float*>(memory);
  call.log_row = reinterpret_cast<int32_t*>(memory + prepared);
  delta_net(memory_.stream(), call);
  check_launch("gated_delta_net");
}

void CudaOps::sigmoid_gate(Tensor gate, Tensor x) {
  ASHLAR_CHECK(gate.rows == x.rows && (gate.cols == x.cols || gate.cols == 1));
  if (x.rows == 0) return;
  cuda::sigmoid_gate(memory_.stream(), matrix_of(gate), matrix_of(x));
  check_launch("sigmoid_gate");
}

void CudaOps::gelu_gate(Tensor gate, Tensor x) {
  ASHLAR_CHECK(gate.rows == x.rows && gate.cols == x.cols);
  if (x.rows == 0) return;
  cuda::gelu_gate(memory_.stream(), matrix_of(gate), matrix_of(x));
  check_launch("gelu_gate");
}

}  // namespace ashlar::cuda
