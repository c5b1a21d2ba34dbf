// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/drafter_optimiser.h"

#include <algorithm>
#include <cmath>

namespace ashlar {
namespace {

constexpr int kNewtonSchulzSteps = 5;

bool is_matrix(const TrainParameter& p) { return p.shape.size() == 2 && !p.is_table; }
Tensor matrix(float* data, int32_t rows, int32_t cols) { return {data, rows, cols, cols}; }

}  // namespace

DrafterOptimiser::DrafterOptimiser(TrainOps& ops, const TrainedTensors& parameters, const TrainSettings& settings)
    : ops_(ops), parameters_(parameters), settings_(settings) {
  if (settings.matrices == MatrixOptimiser::kAdamW) return;
  size_t size = 0;
  size_t side = 0;
  for (const TrainParameter& p : parameters.list()) {
    if (!is_matrix(p)) continue;
    size = std::max(size, p.values.size());
    side = std::max(side, static_cast<size_t>(std::min(p.shape[0], p.shape[1])));
  }
  memory_ = ops.allocate(sizeof(float) * 2 * (size + side * side));
  update_ = reinterpret_cast<float*>(memory_->data());
  product_ = update_ + size;
  gram_ = product_ + size;
  square_ = gram_ + side * side;
}

void DrafterOptimiser::step(double learning_rate, int64_t number) {
  const AdamW adamw = {learning_rate, settings_.beta1, settings_.beta2, settings_.eps, settings_.weight_decay, number};
  if (settings_.matrices == MatrixOptimiser::kAdamW) {
    ops_.adamw(adamw, parameters_.gradients(), parameters_.size(), parameters_.values(), parameters_.m(),
               parameters_.v());
    return;
  }
  for (const TrainParameter& p : parameters_.list()) {
    if (is_matrix(p)) {
      muon_step(p, learning_rate * settings_.muon_rate);
    } else {
      ops_.adamw(adamw, p.gradient.data(), static_cast<int64_t>(p.values.size()), p.values.data(), p.m.data(),
                 p.v.data());
    }
  }
}

// Source: Jordan et al., "Muon" (2024); Nesterov's momentum as in torch.optim.Muon; updates scaled to the size of those
// of AdamW, so that the same decay fits (Liu et al., "Muon is scalable for LLM training", 2025).
void DrafterOptimiser::muon_step(const TrainParameter& p, double learning_rate) {
  const auto n = static_cast<int64_t>(p.values.size());
  const auto momentum = static_cast<float>(settings_.muon_momentum);
  ops_.combine(momentum, p.m.data(), 1 - momentum, p.gradient.data(), n, p.m.data());
  ops_.combine(momentum, p.m.data(), 1 - momentum, p.gradient.data(), n, update_);
  orthogonalise(matrix(update_, static_cast<int32_t>(p.shape[0]), static_cast<int32_t>(p.shape[1])));
  const double size = 0.2 * std::sqrt(static_cast<double>(std::max(p.shape[0], p.shape[1])));
  ops_.combine(static_cast<float>(1 - learning_rate * settings_.muon_weight_decay), p.values.data(),
               static_cast<float>(-learning_rate * size), update_, n, p.values.data());
}

// x becomes a x + b (x x^T) x + c (x x^T)^2 x, or the same of the other side's smaller products: a polynomial of the
// singular values, which moves them towards 1 and keeps the singular vectors.
void DrafterOptimiser::orthogonalise(Tensor u) {
  constexpr float kA = 3.4445F;
  constexpr float kB = -4.775F;
  constexpr float kC = 2.0315F;
  const int64_t n = int64_t{u.rows} * u.cols;
  const bool wide = u.rows <= u.cols;
  const int32_t side = std::min(u.rows, u.cols);
  const int64_t n_gram = int64_t{side} * side;
  const Tensor gram = matrix(gram_, side, side);
  const Tensor square = matrix(square_, side, side);
  const Tensor product = matrix(product_, u.rows, u.cols);
  const double norm = std::sqrt(ops_.squared_norm(u.row(0), n));
  ops_.scale(u.row(0), n, static_cast<float>(1 / std::max(norm, 1e-7)));
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    if (wide) {
      ops_.linear(u, u, Store::kOverwrite, gram);
    } else {
      ops_.clear(gram_, n_gram);
      ops_.linear_weight_gradient(u, u, gram);
    }
    ops_.linear(gram, gram, Store::kOverwrite, square);  // symmetric, so transposed or not
    ops_.combine(kB, gram_, kC, square_, n_gram, gram_);
    if (wide) {
      ops_.linear_input_gradient(gram, u, Store::kOverwrite, product);
    } else {
      ops_.linear(u, gram, Store::kOverwrite, product);
    }
    ops_.combine(kA, u.row(0), 1, product_, n, u.row(0));
  }
}

}  // namespace ashlar
