// SPDX-License-Identifier: Apache-2.0
// Gated delta nets and gates.

#include <algorithm>
#include <cmath>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/delta/delta_run.h"

namespace ashlar::cpu {
namespace {

constexpr int32_t kRowsTogether = 16;  // whose queries, keys and values lie ready at a time

float delta_sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }
float delta_softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Takes arrays one after the other, each on a cache line.
class Shelf {
 public:
  explicit Shelf(std::byte* at) : at_(at) {}
  template <class T>
  T* take(int64_t n) {
    T* const taken = reinterpret_cast<T*>(at_ + used_);
    used_ += static_cast<size_t>(round_up(n * static_cast<int64_t>(sizeof(T)), 64));
    return taken;
  }
  size_t used() const { return used_; }

 private:
  std::byte* at_;
  size_t used_ = 0;
};

}  // namespace

struct DeltaRun::Work {
  int32_t first, n, k_head;
  StateSpan span;
  int32_t replays, kept;
  // For max_rows() rows; u is [rows, value heads, v_dim], o of one head at a time.
  float *q, *k, *kq, *v, *u, *g, *beta, *o, *tile;
  DeltaRow* list;
  const float** inputs;

  /// How many bytes that takes.
  size_t lay_out(const DeltaRun& run, std::byte* scratch) {
    const DeltaShape& shape = run.shape_;
    const int64_t rows = run.max_rows(), heads = shape.v_heads_of_k();
    Shelf shelf(scratch);
    q = shelf.take<float>(rows * shape.k_dim);
    k = shelf.take<float>(rows * shape.k_dim);
    kq = shelf.take<float>(rows);
    v = shelf.take<float>(rows * heads * shape.v_dim);
    u = shelf.take<float>(rows * heads * shape.v_dim);
    g = shelf.take<float>(rows * heads);
    beta = shelf.take<float>(rows * heads);
    o = shelf.take<float>(rows * shape.v_dim);
    tile = shelf.take<float>(int64_t{shape.k_dim} * kDeltaTile);
    list = shelf.take<DeltaRow>(rows + run.net_.states.log_rows);
    inputs = shelf.take<const float*>(shape.taps);
    return shelf.used();
  }
};

int32_t DeltaRun::max_rows() const { return std::max(kRowsTogether, net_.states.log_rows); }

size_t DeltaRun::scratch_bytes() const { return Work{}.lay_out(*this, nullptr); }

namespace {

float* floats(std::byte* state) { return reinterpret_cast<float*>(state); }

// The channels that belong to a key head: fn(first, n).
template <class Fn>
void for_channels(const DeltaShape& shape, int32_t k_head, const Fn& fn) {
  const int32_t values = shape.v_heads_of_k() * shape.v_dim;
  fn(k_head * shape.k_dim, shape.k_dim);
  fn(shape.k_width() + k_head * shape.k_dim, shape.k_dim);
  fn(2 * shape.k_width() + k_head * values, values);
}

}  // namespace

void DeltaRun::run(int32_t first, int32_t n, int32_t k_head, std::byte* scratch) const {
  Work work{};
  work.first = first;
  work.n = n;
  work.k_head = k_head;
  work.span = net_.rows.states[net_.rows.tables[first]];
  work.kept = n - work.span.logged(n);
  work.replays = work.span.replays;
  work.lay_out(*this, scratch);
  float* const state = floats(net_.states.state(work.span.slot));
  if (net_.rows.positions[first] == 0) {
    work.replays = 0;
    const int64_t matrices = int64_t{shape_.v_heads_of_k()} * shape_.k_dim * shape_.v_dim;
    std::fill_n(state + k_head * matrices, matrices, 0.0F);
    for (int32_t t = 0; t < shape_.taps - 1; ++t) {
      float* const inputs = state + shape_.matrices() + int64_t{t} * shape_.channels();
      for_channels(shape_, k_head, [&](int32_t c, int32_t count) { std::fill_n(inputs + c, count, 0.0F); });
    }
  }
  for (int32_t row = 0; row < work.kept; row += kRowsTogether) {
    run_rows(work, row, std::min(kRowsTogether, work.kept - row), row == 0, true);
  }
  run_rows(work, work.kept, n - work.kept, work.kept == 0, false);
  for (const StateSpan::Save& save : work.span.saves) {
    if (save.row < 0) continue;
    copy_inputs(work, work.replays + save.row + 1, floats(net_.states.snapshot(save.snapshot)) + shape_.matrices());
  }
  copy_inputs(work, work.replays + work.kept, state + shape_.matrices());
  write_log(work);
}

// What entered the convolution, in the order of rows: those of the state, of the log, of this call.
const float* DeltaRun::input(const Work& work, int32_t index) const {
  const int32_t before = shape_.taps - 1;
  const int32_t slot = work.span.slot;
  if (index < before) {
    return floats(net_.states.state(slot)) + shape_.matrices() + int64_t{index} * shape_.channels();
  }
  if (index < before + work.replays) return floats(net_.states.log(slot, index - before));
  return in_.row(work.first + index - before - work.replays);
}

void DeltaRun::convolve(const Work& work, int32_t row, int32_t channel, int32_t n, float* to) const {
  for (int32_t t = 0; t < shape_.taps; ++t) work.inputs[t] = input(work, work.replays + row + t) + channel;
  kernels_.delta.convolve({work.inputs, net_.weights.taps + channel, shape_.channels(), shape_.taps, n, to});
}

void DeltaRun::prepare(const Work& work, int32_t row, int32_t place) const {
  const int32_t heads = shape_.v_heads_of_k();
  float* const q = work.q + int64_t{place} * shape_.k_dim;
  float* const k = work.k + int64_t{place} * shape_.k_dim;
  const int32_t values = heads * shape_.v_dim;
  convolve(work, row, work.k_head * shape_.k_dim, shape_.k_dim, q);
  convolve(work, row, shape_.k_width() + work.k_head * shape_.k_dim, shape_.k_dim, k);
  convolve(work, row, 2 * shape_.k_width() + work.k_head * values, values, work.v + int64_t{place} * values);
  const auto normalise = [this](float* x, float scale) {
    kernels_.delta.scale(scale / std::sqrt(kernels_.delta.dot(x, x, shape_.k_dim) + 1e-6F), shape_.k_dim, x);
  };
  normalise(q, 1.0F / std::sqrt(static_cast<float>(shape_.k_dim)));
  normalise(k, 1.0F);
  work.kq[place] = kernels_.delta.dot(k, q, shape_.k_dim);
  const float* const b = in_.row(work.first + row) + shape_.channels() + shape_.v_width();
  const float* const a = b + shape_.n_v_heads;
  for (int32_t i = 0; i < heads; ++i) {
    const int32_t head = work.k_head * heads + i;
    work.g[place * heads + i] = std::exp(net_.weights.decay[head] * delta_softplus(a[head] + net_.weights.bias[head]));
    work.beta[place * heads + i] = delta_sigmoid(b[head]);
  }
}

// Rows [row, row + count) of the span, after those of the log where it `replays`. The state after them stays if it
// `keeps` them, else the one after the log's.
void DeltaRun::run_rows(const Work& work, int32_t row, int32_t count, bool replays, bool keeps) const {
  const int32_t heads = shape_.v_heads_of_k();
  const int64_t matrix = int64_t{shape_.k_dim} * shape_.v_dim;
  for (int32_t i = 0; i < count; ++i) prepare(work, row + i, i);
  for (int32_t h = 0; h < heads; ++h) {
    const int32_t head = work.k_head * heads + h;
    int32_t n = 0;
    for (int32_t i = 0; i < work.replays && replays; ++i) {
      float* const log = floats(net_.states.log(work.span.slot, i)) + shape_.channels();
      DeltaRow& logged = work.list[n++] = {};
      logged.k = log + work.k_head * shape_.k_dim;
      logged.u = log + shape_.k_width() + head * shape_.v_dim;
      logged.g = log[shape_.k_width() + shape_.v_width() + head];
    }
    const int32_t before = n;
    for (int32_t i = 0; i < count; ++i) {
      DeltaRow& next = work.list[n++] = {};
      next.k = work.k + int64_t{i} * shape_.k_dim;
      next.q = work.q + int64_t{i} * shape_.k_dim;
      next.v = work.v + (int64_t{i} * heads + h) * shape_.v_dim;
      next.u = work.u + (int64_t{i} * heads + h) * shape_.v_dim;
      next.o = work.o + int64_t{i} * shape_.v_dim;
      next.g = work.g[i * heads + h];
      next.beta = work.beta[i * heads + h];
      next.kq = work.kq[i];
      for (const StateSpan::Save& save : work.span.saves) {
        if (save.row == row + i) next.snapshot = floats(net_.states.snapshot(save.snapshot)) + head * matrix;
      }
    }
    kernels_.delta.rows({floats(net_.states.state(work.span.slot)) + head * matrix, work.list, n, keeps ? n : before,
                         shape_.k_dim, shape_.v_dim, work.tile});
    finish(work, row, head, count);
  }
}

void DeltaRun::finish(const Work& work, int32_t row, int32_t head, int32_t count) const {
  for (int32_t i = 0; i < count; ++i) {
    float* const out = out_.row(work.first + row + i) + int64_t{shape_.output_head(head)} * shape_.v_dim;
    const float* const z = in_.row(work.first + row + i) + shape_.channels() + int64_t{head} * shape_.v_dim;
    kernels_.rms_norm(work.o + int64_t{i} * shape_.v_dim, net_.weights.norm, net_.weights.eps, shape_.v_dim, out);
    kernels_.delta.silu_gate(z, shape_.v_dim, out);
  }
}

// After all that reads the log. The scratch memory still has the rows that were run last.
void DeltaRun::write_log(const Work& work) const {
  const int32_t heads = shape_.v_heads_of_k();
  for (int32_t i = 0; i < work.n - work.kept; ++i) {
    float* const log = floats(net_.states.log(work.span.slot, i));
    const float* const in = in_.row(work.first + work.kept + i);
    for_channels(shape_, work.k_head, [&](int32_t c, int32_t n) { std::copy_n(in + c, n, log + c); });
    float* const k = log + shape_.channels();
    std::copy_n(work.k + int64_t{i} * shape_.k_dim, shape_.k_dim, k + work.k_head * shape_.k_dim);
    float* const u = k + shape_.k_width();
    std::copy_n(work.u + int64_t{i} * heads * shape_.v_dim, heads * shape_.v_dim,
                u + work.k_head * heads * shape_.v_dim);
    std::copy_n(work.g + i * heads, heads, u + shape_.v_width() + work.k_head * heads);
  }
}

// The inputs of taps - 1 rows from the one of this index on. In ascending order, since some may move within the state.
void DeltaRun::copy_inputs(const Work& work, int32_t from, float* to) const {
  for (int32_t t = 0; t < shape_.taps - 1; ++t, to += shape_.channels()) {
    const float* const source = input(work, from + t);
    if (source == to) continue;
    for_channels(shape_, work.k_head, [&](int32_t c, int32_t n) { std::copy_n(source + c, n, to + c); });
  }
}

void CpuOps::find_sequences(const Rows& rows, const StatePlane& states) {
  sequences_.clear();
  for_each_sequence(rows, [&](int32_t first, int32_t n) {
    ASHLAR_CHECK_LE(rows.states[rows.tables[first]].logged(n), states.log_rows);
    sequences_.push_back(first);
    sequences_.push_back(n);
  });
}

void CpuOps::gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) {
  const DeltaShape& shape = net.shape;
  ASHLAR_CHECK(in.cols == shape.projected_width() && out.cols == shape.v_width());
  ASHLAR_CHECK(in.rows == net.rows.n && out.rows == net.rows.n);
  const DeltaRun run(kernels_, in, net, out);
  find_sequences(net.rows, net.states);
  const auto room = static_cast<size_t>(round_up(static_cast<int64_t>(run.scratch_bytes()), 4 * kFloatsOfPage));
  std::byte* const scratch = delta_scratch_.bytes(room * static_cast<size_t>(pool_.size()));
  const auto piece = [&](int32_t item, int32_t worker) {
    const size_t sequence = 2 * static_cast<size_t>(item / shape.n_k_heads);
    run.run(sequences_[sequence], sequences_[sequence + 1], item % shape.n_k_heads,
            scratch + room * static_cast<size_t>(worker));
  };
  const int32_t pieces = static_cast<int32_t>(sequences_.size() / 2) * shape.n_k_heads;
  if (net.rows.n * shape.matrices() / 16 >= kWorthSharing) return pool_.run(pieces, piece);
  for (int32_t item = 0; item < pieces; ++item) piece(item, 0);
}

void CpuOps::sigmoid_gate(Tensor gate, Tensor x) {
  ASHLAR_CHECK(gate.rows == x.rows && (gate.cols == x.cols || gate.cols == 1));
  for_rows(x.rows, x.cols / 2, [&](int32_t r) {
    if (gate.cols == x.cols) return kernels_.delta.sigmoid_gate(gate.row(r), x.cols, x.row(r));
    kernels_.delta.scale(delta_sigmoid(gate.row(r)[0]), x.cols, x.row(r));
  });
}

void CpuOps::gelu_gate(Tensor gate, Tensor x) {
  ASHLAR_CHECK(gate.rows == x.rows && gate.cols == x.cols);
  for_rows(x.rows, x.cols / 2, [&](int32_t r) { kernels_.delta.gelu_gate(gate.row(r), x.cols, x.row(r)); });
}

}  // namespace ashlar::cpu
