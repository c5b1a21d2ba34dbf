// SPDX-License-Identifier: Apache-2.0
// Value by value: rotation, gates, moving rows. Neighbouring threads have neighbouring columns.

#include "train_kernels.h"
#include "train_values.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

__global__ void __launch_bounds__(kThreads)
    rope_kernel(Matrix x, int32_t head_dim, const float* cos, const float* sin, const int32_t* positions, float sign) {
  const uint32_t half = static_cast<uint32_t>(head_dim) / 2, pairs = static_cast<uint32_t>(x.cols) / 2;
  const uint32_t n = static_cast<uint32_t>(x.rows) * pairs;
  for (uint32_t i = first_group(); i < n; i += group_step()) {
    const uint32_t r = i / pairs, head = i % pairs / half, pair = i % pairs % half;
    const int64_t angle = int64_t{positions[r]} * half + pair;
    const int64_t at = r * x.stride + int64_t{head} * head_dim + pair;
    const float a = load(x.data, at, x.is_f32), b = load(x.data, at + half, x.is_f32);
    const float c = cos[angle], s = sign * sin[angle];
    store(x.data, at, x.is_f32, a * c - b * s);
    store(x.data, at + half, x.is_f32, b * c + a * s);
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads) silu_kernel(Matrix gate, Matrix up, Matrix out) {
  for_groups<kWidth>(out, [&](uint32_t r, int32_t c) {
    const Values<kWidth> g = read<kWidth>(gate, r, c), u = read<kWidth>(up, r, c);
    Values<kWidth> y;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) y.v[i] = gated(g.v[i], u.v[i]);
    write(out, r, c, y);
  });
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    silu_gradient_kernel(Matrix d_out, Matrix gate, Matrix up, Matrix d_gate, Matrix d_up) {
  for_groups<kWidth>(d_out, [&](uint32_t r, int32_t c) {
    const Values<kWidth> d = read<kWidth>(d_out, r, c), g = read<kWidth>(gate, r, c), u = read<kWidth>(up, r, c);
    Values<kWidth> to_gate, to_up;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float s = 1 / (1 + expf(-g.v[i]));
      to_gate.v[i] = d.v[i] * u.v[i] * s * (1 + g.v[i] * (1 - s));
      to_up.v[i] = d.v[i] * g.v[i] * s;
    }
    write(d_gate, r, c, to_gate);
    write(d_up, r, c, to_up);
  });
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads) sigmoid_kernel(Matrix gate, Matrix x, Matrix out) {
  for_groups<kWidth>(out, [&](uint32_t r, int32_t c) {
    const Values<kWidth> g = read<kWidth>(gate, r, c), in = read<kWidth>(x, r, c);
    Values<kWidth> y;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) y.v[i] = in.v[i] / (1 + expf(-g.v[i]));
    write(out, r, c, y);
  });
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    sigmoid_gradient_kernel(Matrix d_out, Matrix gate, Matrix x, Matrix d_gate, Matrix d_x) {
  for_groups<kWidth>(d_out, [&](uint32_t r, int32_t c) {
    const Values<kWidth> d = read<kWidth>(d_out, r, c), g = read<kWidth>(gate, r, c), in = read<kWidth>(x, r, c);
    Values<kWidth> to_gate, to_x;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float s = 1 / (1 + expf(-g.v[i]));
      to_gate.v[i] = d.v[i] * in.v[i] * s / (1 + expf(g.v[i]));  // 1 - s, where little would be left of it
      to_x.v[i] = d.v[i] * s;
    }
    write(d_gate, r, c, to_gate);
    write(d_x, r, c, to_x);
  });
}

/// out[r] = scale * x[ids[r]]; without ids: x[r].
template <int kWidth>
__global__ void __launch_bounds__(kThreads) gather_kernel(Matrix x, const int32_t* ids, float scale, Matrix out) {
  for_groups<kWidth>(out, [&](uint32_t r, int32_t c) {
    Values<kWidth> values = read<kWidth>(x, ids == nullptr ? int64_t{r} : int64_t{ids[r]}, c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.v[i] *= scale;
    write(out, r, c, values);
  });
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(Matrix rows, const int32_t* ids, const float* scales, bool add, Matrix out) {
  for_groups<kWidth>(rows, [&](uint32_t r, int32_t c) {
    Values<kWidth> values = read<kWidth>(rows, r, c), there = {};
    if (add) there = read<kWidth>(out, ids[r], c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.v[i] = fmaf(values.v[i], scales[r], there.v[i]);
    write(out, ids[r], c, values);
  });
}

}  // namespace
}  // namespace train

using namespace train;

void train_rope(cudaStream_t stream, const Matrix& x, int32_t head_dim, const float* cos, const float* sin,
                const int32_t* positions, float sign) {
  rope_kernel<<<blocks_for_groups(groups_of(x, 2)), kThreads, 0, stream>>>(x, head_dim, cos, sin, positions, sign);
}

void train_silu_mul(cudaStream_t stream, const Matrix& gate, const Matrix& up, const Matrix& out) {
  if (takes_four(gate) && takes_four(up) && takes_four(out)) {
    silu_kernel<4><<<blocks_for_groups(groups_of(out, 4)), kThreads, 0, stream>>>(gate, up, out);
  } else {
    silu_kernel<1><<<blocks_for_groups(groups_of(out, 1)), kThreads, 0, stream>>>(gate, up, out);
  }
}

void train_silu_mul_gradient(cudaStream_t stream, const Matrix& d_out, const Matrix& gate, const Matrix& up,
                             const Matrix& d_gate, const Matrix& d_up) {
  bool by_four = true;
  for (const Matrix* x : {&d_out, &gate, &up, &d_gate, &d_up}) by_four = by_four && takes_four(*x);
  if (by_four) {
    silu_gradient_kernel<4>
        <<<blocks_for_groups(groups_of(d_out, 4)), kThreads, 0, stream>>>(d_out, gate, up, d_gate, d_up);
  } else {
    silu_gradient_kernel<1>
        <<<blocks_for_groups(groups_of(d_out, 1)), kThreads, 0, stream>>>(d_out, gate, up, d_gate, d_up);
  }
}

void train_sigmoid_mul(cudaStream_t stream, const Matrix& gate, const Matrix& x, const Matrix& out) {
  if (takes_four(gate) && takes_four(x) && takes_four(out)) {
    sigmoid_kernel<4><<<blocks_for_groups(groups_of(out, 4)), kThreads, 0, stream>>>(gate, x, out);
  } else {
    sigmoid_kernel<1><<<blocks_for_groups(groups_of(out, 1)), kThreads, 0, stream>>>(gate, x, out);
  }
}

void train_sigmoid_mul_gradient(cudaStream_t stream, const Matrix& d_out, const Matrix& gate, const Matrix& x,
                                const Matrix& d_gate, const Matrix& d_x) {
  bool by_four = true;
  for (const Matrix* each : {&d_out, &gate, &x, &d_gate, &d_x}) by_four = by_four && takes_four(*each);
  if (by_four) {
    sigmoid_gradient_kernel<4>
        <<<blocks_for_groups(groups_of(d_out, 4)), kThreads, 0, stream>>>(d_out, gate, x, d_gate, d_x);
  } else {
    sigmoid_gradient_kernel<1>
        <<<blocks_for_groups(groups_of(d_out, 1)), kThreads, 0, stream>>>(d_out, gate, x, d_gate, d_x);
  }
}

void train_gather(cudaStream_t stream, const Matrix& table, const int32_t* ids, float scale, const Matrix& out) {
  if (takes_four(table) && takes_four(out)) {
    gather_kernel<4><<<blocks_for_groups(groups_of(out, 4)), kThreads, 0, stream>>>(table, ids, scale, out);
  } else {
    gather_kernel<1><<<blocks_for_groups(groups_of(out, 1)), kThreads, 0, stream>>>(table, ids, scale, out);
  }
}

void train_copy(cudaStream_t stream, const Matrix& x, const Matrix& out) { train_gather(stream, x, nullptr, 1, out); }

void train_scatter(cudaStream_t stream, const Matrix& rows, const int32_t* ids, const float* scales, bool add,
                   const Matrix& out) {
  if (takes_four(rows) && takes_four(out)) {
    scatter_kernel<4><<<blocks_for_groups(groups_of(rows, 4)), kThreads, 0, stream>>>(rows, ids, scales, add, out);
  } else {
    scatter_kernel<1><<<blocks_for_groups(groups_of(rows, 1)), kThreads, 0, stream>>>(rows, ids, scales, add, out);
  }
}

}  // namespace ashlar::cuda
