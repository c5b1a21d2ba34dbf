// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "device/ref/ref_kernels.h"

namespace ashlar::ref {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Row by row, as ops.h has it. What is wider than a float only keeps the specification from adding errors of its own.
class Sequence {
 public:
  explicit Sequence(const DeltaNet& net)
      : net_(net), shape_(net.shape), log_(static_cast<size_t>(net.shape.log_floats())) {}

  void begin(const float* state) {
    state_.assign(static_cast<size_t>(shape_.state_floats()), 0.0F);
    if (state != nullptr) std::copy_n(state, state_.size(), state_.data());
  }
  void copy_to(std::byte* state) const { std::copy(state_.begin(), state_.end(), reinterpret_cast<float*>(state)); }
  const std::vector<float>& log() const { return log_; }

  void replay(const float* log) {
    for (int32_t h = 0; h < shape_.n_v_heads; ++h) update(h, log);
    push(log);
  }

  void step(const float* in, float* out) {
    std::vector<float> mixed(static_cast<size_t>(shape_.channels()));
    for (int32_t c = 0; c < shape_.channels(); ++c) mixed[c] = convolved(in, c);
    std::copy_n(in, shape_.channels(), log_.data());
    for (int32_t h = 0; h < shape_.n_k_heads; ++h) {
      normalise(mixed.data() + h * shape_.k_dim, 1.0 / std::sqrt(static_cast<double>(shape_.k_dim)));
      normalise(mixed.data() + shape_.k_width() + h * shape_.k_dim, 1.0);
    }
    std::copy_n(mixed.data() + shape_.k_width(), shape_.k_width(), log_.data() + shape_.channels());
    for (int32_t h = 0; h < shape_.n_v_heads; ++h) run_head(h, mixed.data(), in, out);
    push(in);
  }

 private:
  float* matrix(int32_t head) { return state_.data() + int64_t{head} * shape_.k_dim * shape_.v_dim; }
  float* inputs() { return state_.data() + shape_.matrices(); }
  const float* keys_of(int32_t head, const float* log) const {
    return log + shape_.channels() + head / shape_.v_heads_of_k() * shape_.k_dim;
  }
  int64_t added_at(int32_t head) const { return shape_.channels() + shape_.k_width() + int64_t{head} * shape_.v_dim; }
  int64_t factor_at(int32_t head) const { return added_at(shape_.n_v_heads) + head; }

  float convolved(const float* in, int32_t c) {
    const int32_t before = shape_.taps - 1;
    const int64_t channels = shape_.channels();
    double sum = static_cast<double>(net_.weights.taps[before * channels + c]) * in[c];
    for (int32_t t = 0; t < before; ++t) {
      sum += static_cast<double>(net_.weights.taps[t * channels + c]) * inputs()[t * channels + c];
    }
    return static_cast<float>(sum * sigmoid(sum));
  }

  void normalise(float* x, double scale) const {
    double squares = 1e-6;
    for (int32_t i = 0; i < shape_.k_dim; ++i) squares += static_cast<double>(x[i]) * x[i];
    for (int32_t i = 0; i < shape_.k_dim; ++i) x[i] = static_cast<float>(x[i] / std::sqrt(squares) * scale);
  }

  // S = g S + k u^T, with each operation rounded, here and where the row is computed.
  void update(int32_t head, const float* log) {
    const float* k = keys_of(head, log);
    const float* u = log + added_at(head);
    const float g = log[factor_at(head)];
    float* s = matrix(head);
    for (int32_t i = 0; i < shape_.k_dim; ++i) {
      for (int32_t j = 0; j < shape_.v_dim; ++j, ++s) *s = g * *s + k[i] * u[j];
    }
  }

  float product(int32_t head, const float* x, int32_t column) {
    double sum = 0;
    for (int32_t i = 0; i < shape_.k_dim; ++i) {
      sum += static_cast<double>(matrix(head)[int64_t{i} * shape_.v_dim + column]) * x[i];
    }
    return static_cast<float>(sum);
  }

  void run_head(int32_t h, const float* mixed, const float* in, float* out) {
    const DeltaWeights& weights = net_.weights;
    const float* v = mixed + 2 * shape_.k_width() + h * shape_.v_dim;
    const float* z = in + shape_.channels() + h * shape_.v_dim;
    const float* b = in + shape_.channels() + shape_.v_width() + h;
    const float* a = b + shape_.n_v_heads;
    const auto g = static_cast<float>(std::exp(weights.decay[h] * softplus(double{*a} + weights.bias[h])));
    const auto beta = static_cast<float>(sigmoid(*b));
    log_[factor_at(h)] = g;
    float* u = log_.data() + added_at(h);
    const float* k = keys_of(h, log_.data());
    for (int32_t j = 0; j < shape_.v_dim; ++j) u[j] = beta * (v[j] - g * product(h, k, j));
    update(h, log_.data());
    const float* q = mixed + h / shape_.v_heads_of_k() * shape_.k_dim;
    float* to = out + shape_.output_head(h) * shape_.v_dim;
    for (int32_t j = 0; j < shape_.v_dim; ++j) to[j] = product(h, q, j);
    rms_norm(to, weights.norm, shape_.v_dim, weights.eps, to);
    for (int32_t j = 0; j < shape_.v_dim; ++j) to[j] *= static_cast<float>(z[j] * sigmoid(z[j]));
  }

  void push(const float* in) {
    if (shape_.taps == 1) return;
    const int32_t channels = shape_.channels();
    std::copy(inputs() + channels, inputs() + int64_t{shape_.taps - 1} * channels, inputs());
    std::copy_n(in, channels, inputs() + int64_t{shape_.taps - 2} * channels);
  }

  const DeltaNet& net_;
  const DeltaShape& shape_;
  std::vector<float> state_, log_;
};

}  // namespace

void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) {
  ASHLAR_CHECK(in.cols == net.shape.projected_width() && out.cols == net.shape.v_width());
  const StatePlane& plane = net.states;
  for_each_sequence(net.rows, [&](int32_t first, int32_t n) {
    const StateSpan& span = net.rows.states[net.rows.tables[first]];
    const bool begins = net.rows.positions[first] == 0;
    Sequence sequence(net);
    sequence.begin(begins ? nullptr : reinterpret_cast<const float*>(plane.state(span.slot)));
    for (int32_t i = 0; i < span.replays && !begins; ++i) {
      sequence.replay(reinterpret_cast<const float*>(plane.log(span.slot, i)));
    }
    const int32_t kept = n - span.logged(n);
    for (int32_t r = 0; r < n; ++r) {
      if (r == kept) sequence.copy_to(plane.state(span.slot));
      sequence.step(in.row(first + r), out.row(first + r));
      if (r >= kept) {
        std::copy(sequence.log().begin(), sequence.log().end(),
                  reinterpret_cast<float*>(plane.log(span.slot, r - kept)));
      }
      for (const StateSpan::Save& save : span.saves) {
        if (save.row == r) sequence.copy_to(plane.snapshot(save.snapshot));
      }
    }
  });
}

}  // namespace ashlar::ref
