// SPDX-License-Identifier: Apache-2.0
#include "decode/verify/prompt_hidden.h"

#include <algorithm>
#include <utility>

namespace ashlar {

PromptHidden::PromptHidden(std::span<const int32_t> layers, int32_t hidden)
    : n_layers_(static_cast<int32_t>(layers.size())), hidden_(hidden) {
  for (const int32_t layer : layers) {
    layers_.push_back({layer, static_cast<int32_t>(layers_.size()) * hidden});
  }
}

void PromptHidden::start(Ops& ops, int32_t max_rows, std::span<const AuxLayer> drafter, int32_t drafter_width) {
  for (const AuxLayer& layer : drafter) layers_.push_back({layer.layer, width() + layer.column});
  std::ranges::stable_sort(layers_, {}, &AuxLayer::layer);
  const DType type = ops.activation_type();
  const int32_t cols = width() + drafter_width;
  const size_t all = static_cast<size_t>(max_rows) * static_cast<size_t>(cols) * bytes_of(type);
  storage_ = ops.allocate(all + static_cast<size_t>(max_rows) * row(type).bytes());
  all_ = {storage_->data(), max_rows, cols, cols, type};
  taken_ = {storage_->data() + all, max_rows, width(), width(), type};
}

AuxHiddenRequest PromptHidden::request() {
  n_taken_ = 0;
  return {layers_, all_};
}

int32_t PromptHidden::take(Ops& ops, int32_t first, int32_t n) {
  ops.copy(all_.part(first, n).columns(0, width()), taken_.part(n_taken_, n));
  return std::exchange(n_taken_, n_taken_ + n);
}

void PromptHidden::download(Ops& ops, std::span<std::byte> to) {
  const size_t bytes = static_cast<size_t>(std::exchange(n_taken_, 0)) * row(taken_.dtype).bytes();
  ASHLAR_CHECK_LE(bytes, to.size());
  if (bytes > 0) ops.download(static_cast<const std::byte*>(taken_.data), to.data(), bytes);
}

}  // namespace ashlar
