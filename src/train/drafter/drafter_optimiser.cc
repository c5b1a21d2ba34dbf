// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/drafter_optimiser.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ashlar {
namespace {

constexpr int kNewtonSchulzSteps = 5;

/// Floats of matrices of one shape that are orthogonalised together: a small one alone does not fill a GPU.
constexpr size_t kMaxTogether = size_t{1} << 24;

bool is_matrix(const TrainParameter& p) { return p.shape.size() == 2 && p.shape[0] > 1 && !p.is_table; }
Tensor matrix(float* data, int32_t rows, int32_t cols) { return {data, rows, cols, cols}; }

}  // namespace

DrafterOptimiser::DrafterOptimiser(TrainOps& ops, const TrainedTensors& parameters, const TrainSettings& settings)
    : ops_(ops), parameters_(parameters), settings_(settings) {
  if (settings.matrices == MatrixOptimiser::kAdamW) return;
  std::map<std::vector<int64_t>, size_t> open;  // the group of a shape that has room
  for (const TrainParameter& p : parameters.list()) {
    if (!is_matrix(p)) continue;
    const auto [at, is_new] = open.try_emplace(p.shape, groups_.size());
    if (is_new || (groups_[at->second].size() + 1) * p.values.size() > kMaxTogether) {
      at->second = groups_.size();
      groups_.emplace_back();
    }
    groups_[at->second].push_back(&p);
  }
  size_t size = 0;
  size_t squares = 0;
  for (const Group& group : groups_) {
    const auto side = static_cast<size_t>(std::min(group[0]->shape[0], group[0]->shape[1]));
    size = std::max(size, group.size() * group[0]->values.size());
    squares = std::max(squares, group.size() * side * side);
  }
  const bool narrow = settings.compute == DType::kBF16;
  size = (size + 7) / 8 * 8, squares = (squares + 7) / 8 * 8;  // all begin at multiples of 16 bytes
  memory_ = ops.allocate(sizeof(float) * 2 * (size + squares) + (narrow ? sizeof(uint16_t) * (size + squares) : 0));
  update_ = reinterpret_cast<float*>(memory_->data());
  product_ = update_ + size;
  gram_ = product_ + size;
  square_ = gram_ + squares;
  if (!narrow) return;
  narrow_update_ = reinterpret_cast<uint16_t*>(square_ + squares);
  narrow_gram_ = narrow_update_ + size;
}

void DrafterOptimiser::step(double learning_rate, int64_t number) {
  const AdamW adamw = {learning_rate, settings_.beta1, settings_.beta2, settings_.eps, settings_.weight_decay, number};
  if (settings_.matrices == MatrixOptimiser::kAdamW) {
    ops_.adamw(adamw, parameters_.gradients(), parameters_.size(), parameters_.values(), parameters_.m(),
               parameters_.v());
    return;
  }
  for (const TrainParameter& p : parameters_.list()) {
    if (is_matrix(p)) continue;
    ops_.adamw(adamw, p.gradient.data(), static_cast<int64_t>(p.values.size()), p.values.data(), p.m.data(),
               p.v.data());
  }
  for (const Group& group : groups_) muon_step(group, learning_rate * settings_.muon_rate);
}

// Source: Jordan et al., "Muon" (2024); Nesterov's momentum as in torch.optim.Muon; updates scaled to the size of those
// of AdamW, so that the same decay fits (Liu et al., "Muon is scalable for LLM training", 2025).
void DrafterOptimiser::muon_step(const Group& group, double learning_rate) {
  const std::vector<int64_t>& shape = group[0]->shape;
  const auto n = shape[0] * shape[1];
  const auto count = static_cast<int32_t>(group.size());
  const auto momentum = static_cast<float>(settings_.muon_momentum);
  for (size_t i = 0; i < group.size(); ++i) {
    const TrainParameter& p = *group[i];
    ops_.combine(momentum, p.m.data(), 1 - momentum, p.gradient.data(), n, p.m.data());
    ops_.combine(momentum, p.m.data(), 1 - momentum, p.gradient.data(), n, update_ + static_cast<int64_t>(i) * n);
  }
  orthogonalise(matrix(update_, count * static_cast<int32_t>(shape[0]), static_cast<int32_t>(shape[1])), count);
  const double size = 0.2 * std::sqrt(static_cast<double>(std::max(shape[0], shape[1])));
  for (size_t i = 0; i < group.size(); ++i) {
    float* const values = group[i]->values.data();
    ops_.combine(static_cast<float>(1 - learning_rate * settings_.muon_weight_decay), values,
                 static_cast<float>(-learning_rate * size), update_ + static_cast<int64_t>(i) * n, n, values);
  }
}

Tensor DrafterOptimiser::factor(Tensor x, uint16_t* room) {
  if (room == nullptr) return x;
  const Tensor narrow = {room, x.rows, x.cols, x.cols, DType::kBF16};
  ops_.copy(x, narrow);
  return narrow;
}

// x becomes a x + b (x x^T) x + c (x x^T)^2 x, or the same of the other side's smaller products: a polynomial of the
// singular values, which moves them towards 1 and keeps the singular vectors. It need not be exact, so factors may be
// bf16; what they make and x itself stay fp32.
void DrafterOptimiser::orthogonalise(Tensor u, int32_t count) {
  constexpr float kA = 3.4445F;
  constexpr float kB = -4.775F;
  constexpr float kC = 2.0315F;
  const int64_t n = int64_t{u.rows} * u.cols;
  const bool wide = u.rows / count <= u.cols;
  const int32_t side = std::min(u.rows / count, u.cols);
  const int64_t n_gram = int64_t{side} * side * count;
  const Tensor gram = matrix(gram_, side * count, side);
  const Tensor square = matrix(square_, side * count, side);
  const Tensor product = matrix(product_, u.rows, u.cols);
  ops_.normalise(u.row(0), n / count, count, 1e-7);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    const Tensor x = factor(u, narrow_update_);
    ops_.products(wide ? ProductKind::kOuter : ProductKind::kInner, count, x, x, gram);
    const Tensor once = factor(gram, narrow_gram_);
    ops_.products(ProductKind::kPlain, count, once, once, square);
    ops_.combine(kB, gram_, kC, square_, n_gram, gram_);
    const Tensor both = factor(gram, narrow_gram_);
    ops_.products(ProductKind::kPlain, count, wide ? both : x, wide ? x : both, product);
    ops_.combine(kA, u.row(0), 1, product_, n, u.row(0));
  }
}

}  // namespace ashlar
