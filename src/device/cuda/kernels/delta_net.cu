// SPDX-License-Identifier: Apache-2.0
// Gated delta nets. A block of threads has the value heads of one key head of one sequence and goes through its rows;
// a thread has columns of their matrices, which do not depend on each other. Sums run in fixed orders.

#include "device_math.cuh"
#include "state_rows.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;

/// The part of a call that one block has.
struct Part {
  const DeltaNetCall& call;
  int32_t heads, values;           ///< value heads, their columns together
  int32_t first_head, q0, k0, v0;  ///< where its channels begin
  int32_t own_channels;

  __device__ Part(const DeltaNetCall& c, int32_t k_head)
      : call(c),
        heads(c.n_v_heads / c.n_k_heads),
        values(heads * c.v_dim),
        first_head(k_head * heads),
        q0(k_head * c.k_dim),
        k0((c.n_k_heads + k_head) * c.k_dim),
        v0(2 * c.n_k_heads * c.k_dim + k_head * values),
        own_channels(2 * c.k_dim + values) {}
  /// Channel of the call that is the block's own channel `i`.
  __device__ int32_t channel(int32_t i) const {
    return i < call.k_dim ? q0 + i : i < 2 * call.k_dim ? k0 + i - call.k_dim : v0 + i - 2 * call.k_dim;
  }
  __device__ int64_t log_keys(int32_t i) const { return int64_t{call.channels} + k0 - call.n_k_heads * call.k_dim + i; }
  __device__ int64_t log_added(int32_t i) const {
    return int64_t{call.channels} + call.n_k_heads * call.k_dim + first_head * call.v_dim + i;
  }
  __device__ int64_t log_factor(int32_t h) const {
    return int64_t{call.channels} + call.n_k_heads * call.k_dim + call.n_v_heads * call.v_dim + first_head + h;
  }
  /// Where column `i` of the block's matrices begins; its rows are v_dim apart.
  __device__ int64_t column(int32_t i) const {
    return (int64_t{first_head} + i / call.v_dim) * call.k_dim * call.v_dim + i % call.v_dim;
  }
  /// As DeltaShape::output_head.
  __device__ int32_t output_head(int32_t h) const {
    return call.outputs_by_turns ? h * call.n_k_heads + first_head / heads : first_head + h;
  }
  __device__ int64_t inputs() const { return int64_t{call.n_v_heads} * call.k_dim * call.v_dim; }
};

/// In shared memory.
struct Shared {
  float *q, *k, *v, *u, *o, *g, *beta, *window, *kq;
  __device__ Shared(float* at, const Part& part) {
    q = at, k = q + part.call.k_dim, v = k + part.call.k_dim;
    u = v + part.values, o = u + part.values;
    g = o + part.values, beta = g + part.heads, kq = beta + part.heads, window = kq + 1;
  }
};

/// to = g from + k u^T, for the block's matrices. k may lie in global memory, u as well.
__device__ void update(const Part& part, const float* from, float* to, const float* k, const float* u, const float* g) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < part.values; i += kThreads) {
    const float factor = g[i / part.call.v_dim], added = u[i];
    int64_t at = part.column(i);
    for (int32_t d = 0; d < part.call.k_dim; ++d, at += part.call.v_dim) to[at] = fmaf(k[d], added, factor * from[at]);
  }
}

__device__ void copy_window(const Part& part, const float* window, float* to) {
  const int32_t before = part.call.taps - 1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < before * part.own_channels; i += kThreads) {
    to[int64_t{i / part.own_channels} * part.call.channels + part.channel(i % part.own_channels)] = window[i];
  }
}

/// Moves a thread's own channels on by one row. They lie at i, i + own_channels, ..., and so belong to one thread.
__device__ void push(const Part& part, float* window, int32_t i, float input) {
  const int32_t before = part.call.taps - 1;
  for (int32_t t = 0; t + 1 < before; ++t) window[t * part.own_channels + i] = window[(t + 1) * part.own_channels + i];
  if (before > 0) window[(before - 1) * part.own_channels + i] = input;
}

/// Sum of a[i] * b[i] by one warp, the same in all lanes.
__device__ float warp_dot(const float* a, const float* b, int32_t n) {
  float sum = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x % 32); i < n; i += 32) sum = fmaf(a[i], b[i], sum);
  return warp_sum(sum);
}

/// Queries, keys, values and gates of row `row`, and its inputs to the window.
__device__ void prepare(const Part& part, const Shared& s, int64_t row) {
  const DeltaNetCall& call = part.call;
  const int64_t in = row * call.in.stride;
  const int32_t before = call.taps - 1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < part.own_channels; i += kThreads) {
    const int32_t c = part.channel(i);
    const float input = load(call.in.data, in + c, call.in.is_f32);
    float sum = 0;
    for (int32_t t = 0; t < before; ++t) {
      sum = fmaf(s.window[t * part.own_channels + i], call.tap_weights[int64_t{t} * call.channels + c], sum);
    }
    sum = fmaf(input, call.tap_weights[int64_t{before} * call.channels + c], sum);
    s.q[i] = gated(sum, 1.0F);  // q, k and v lie one after the other
    push(part, s.window, i, input);
  }
  for (int32_t h = static_cast<int32_t>(threadIdx.x); h < part.heads; h += kThreads) {
    const int32_t head = part.first_head + h;
    const int64_t b = in + call.channels + int64_t{call.n_v_heads} * call.v_dim + head;
    const float a = load(call.in.data, b + call.n_v_heads, call.in.is_f32) + call.bias[head];
    s.g[h] = expf(call.decay[head] * (a > 20 ? a : log1pf(expf(a))));
    s.beta[h] = sigmoid(load(call.in.data, b, call.in.is_f32));
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x / 32);
  if (warp < 2) {
    float* const x = warp == 0 ? s.q : s.k;
    float scale = 1.0F / sqrtf(warp_dot(x, x, call.k_dim) + 1e-6F);
    if (warp == 0) scale /= sqrtf(static_cast<float>(call.k_dim));
    for (int32_t i = static_cast<int32_t>(threadIdx.x % 32); i < call.k_dim; i += 32) x[i] *= scale;
  }
  __syncthreads();
  if (warp == 0) {
    const float sum = warp_dot(s.k, s.q, call.k_dim);
    if (threadIdx.x == 0) *s.kq = sum;
  }
  __syncthreads();
}

/// What the row adds, and its answers.
__device__ void ask(const Part& part, const Shared& s, const float* state) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < part.values; i += kThreads) {
    float keys = 0, queries = 0;
    int64_t at = part.column(i);
    for (int32_t d = 0; d < part.call.k_dim; ++d, at += part.call.v_dim) {
      const float value = state[at];
      keys = fmaf(value, s.k[d], keys);
      queries = fmaf(value, s.q[d], queries);
    }
    const int32_t h = i / part.call.v_dim;
    s.u[i] = s.beta[h] * (s.v[i] - s.g[h] * keys);
    s.o[i] = fmaf(*s.kq, s.u[i], s.g[h] * queries);
  }
  __syncthreads();
}

__device__ void finish(const Part& part, const Shared& s, int64_t row) {
  const DeltaNetCall& call = part.call;
  for (int32_t h = static_cast<int32_t>(threadIdx.x / 32); h < part.heads; h += kThreads / 32) {
    const float* const o = s.o + h * call.v_dim;
    const float scale = 1.0F / sqrtf(warp_dot(o, o, call.v_dim) / static_cast<float>(call.v_dim) + call.eps);
    const int64_t column = (int64_t{part.first_head} + h) * call.v_dim;
    const int64_t to = row * call.out.stride + int64_t{part.output_head(h)} * call.v_dim;
    for (int32_t j = static_cast<int32_t>(threadIdx.x % 32); j < call.v_dim; j += 32) {
      const float z = load(call.in.data, row * call.in.stride + call.channels + column + j, call.in.is_f32);
      store(call.out.data, to + j, call.out.is_f32, gated(z, o[j] * scale * call.norm[j]));
    }
  }
}

__device__ void write_log(const Part& part, const Shared& s, int64_t row, float* log) {
  const DeltaNetCall& call = part.call;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = thread; i < part.own_channels; i += kThreads) {
    log[part.channel(i)] = load(call.in.data, row * call.in.stride + part.channel(i), call.in.is_f32);
  }
  for (int32_t i = thread; i < call.k_dim; i += kThreads) log[part.log_keys(i)] = s.k[i];
  for (int32_t i = thread; i < part.values; i += kThreads) log[part.log_added(i)] = s.u[i];
  for (int32_t h = thread; h < part.heads; h += kThreads) log[part.log_factor(h)] = s.g[h];
}

/// The state and the window as they are after what was committed.
__device__ void begin(const Part& part, const Shared& s, float* state, int32_t slot, int32_t replays, bool is_new) {
  const DeltaNetCall& call = part.call;
  const int32_t before = call.taps - 1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < part.own_channels; i += kThreads) {
    const int32_t c = part.channel(i);
    for (int32_t t = 0; t < before; ++t) {
      s.window[t * part.own_channels + i] = is_new ? 0.0F : state[part.inputs() + int64_t{t} * call.channels + c];
    }
    for (int32_t r = 0; r < replays; ++r) push(part, s.window, i, log_of(call, slot, r)[c]);
  }
  for (int32_t i = static_cast<int32_t>(threadIdx.x); is_new && i < part.values; i += kThreads) {
    int64_t at = part.column(i);
    for (int32_t d = 0; d < call.k_dim; ++d, at += call.v_dim) state[at] = 0.0F;
  }
  for (int32_t r = 0; r < replays; ++r) {
    const float* const log = log_of(call, slot, r);
    update(part, state, state, log + part.log_keys(0), log + part.log_added(0), log + part.log_factor(0));
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads) delta_net_kernel(DeltaNetCall call) {
  begin_kernel();
  extern __shared__ float memory[];
  const auto first = static_cast<int32_t>(blockIdx.x);
  const int32_t n = rows_of_span(call, first);
  if (n == 0) return;

  const Part part(call, static_cast<int32_t>(blockIdx.y));
  const Shared s(memory, part);
  const Span& span = call.spans[call.tables[first]];
  const bool is_new = call.positions[first] == 0;
  const int32_t kept = n - min(span.choices, n);
  float* const state = state_of(call, span.slot);
  float* const passing = call.scratch + span.slot * part.inputs();
  begin(part, s, state, span.slot, is_new ? 0 : span.replays, is_new);
  const float* at = state;
  for (int32_t r = 0; r < n; ++r) {
    if (r == kept) copy_window(part, s.window, state + part.inputs());
    __syncthreads();
    prepare(part, s, int64_t{first} + r);
    ask(part, s, at);
    finish(part, s, int64_t{first} + r);
    for (const Save& save : span.saves) {
      if (save.row != r) continue;
      float* const to = snapshot_of(call, save.snapshot);
      update(part, at, to, s.k, s.u, s.g);
      copy_window(part, s.window, to + part.inputs());
    }
    if (r >= kept) write_log(part, s, int64_t{first} + r, log_of(call, span.slot, r - kept));
    if (r + 1 < n || r < kept) {
      float* const to = r < kept ? state : passing;
      update(part, at, to, s.k, s.u, s.g);
      at = to;
    }
    __syncthreads();
  }
}

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

void delta_net(cudaStream_t stream, const DeltaNetCall& call) {
  const int32_t heads = call.n_v_heads / call.n_k_heads;
  const int32_t values = heads * call.v_dim;
  const size_t floats = static_cast<size_t>(2 * call.k_dim + 3 * values + 2 * heads + 1) +
                        static_cast<size_t>(call.taps - 1) * static_cast<size_t>(2 * call.k_dim + values);
  const size_t bytes = floats * sizeof(float);
  cudaFuncSetAttribute(delta_net_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  const dim3 grid(static_cast<unsigned>(call.rows), static_cast<unsigned>(call.n_k_heads));
  start(stream, {grid, kThreads, bytes}, delta_net_kernel, call);
}

void sigmoid_gate(cudaStream_t stream, const Matrix& gate, const Matrix& x) {
  start(stream, {rows_of(x), kThreads}, sigmoid_gate_kernel, gate, x);
}

void gelu_gate(cudaStream_t stream, const Matrix& gate, const Matrix& x) {
  start(stream, {rows_of(x), kThreads}, gelu_gate_kernel, gate, x);
}

}  // namespace ashlar::cuda
