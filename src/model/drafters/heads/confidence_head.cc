// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/heads/confidence_head.h"

#include <cmath>
#include <utility>

namespace ashlar {

ConfidenceHead::ConfidenceHead(WeightBinder& binder, const std::string& prefix, int32_t hidden, int32_t code)
    : code_(code) {
  const WeightPart both = binder.matrix(prefix + ".weight", 1, int64_t{hidden} + code);
  std::vector<float> bias;
  if (binder.has(prefix + ".bias")) bias = binder.vector(prefix + ".bias", 1);
  of_hidden_ = binder.ops().pack({{both.block(0, 1, 0, hidden)}, std::move(bias)}, {});
  if (code > 0) of_code_ = binder.ops().pack({{both.block(0, 1, hidden, code)}, {}}, {});
}

void ConfidenceHead::reserve(Ops& ops, int32_t rows) {
  ids_ = {ops, rows};
  logits_ = {ops, int64_t{of_code_ ? 2 : 1} * rows};
  chances_.reserve(static_cast<size_t>(rows));
  if (!of_code_) return;
  const DType type = ops.activation_type();
  storage_ = ops.allocate(bytes_of(type) * static_cast<size_t>(rows) * static_cast<size_t>(code_));
  code_rows_ = {storage_->data(), rows, code_, code_, type};
}

std::span<const float> ConfidenceHead::chances(Ops& ops, Tensor hidden, std::span<const int32_t> before,
                                               const Weight& codes) {
  const int32_t n = hidden.rows;
  ops.linear(*of_hidden_, hidden, Store::kOverwrite, {logits_.device(), n, 1, 1});
  if (of_code_) {
    ids_.upload(before);
    const Tensor rows = code_rows_.narrow(n);
    ops.embed(codes, ids_.device(), 1.0F, rows);
    ops.linear(*of_code_, rows, Store::kOverwrite, {logits_.device() + n, n, 1, 1});
  }
  const std::span<const float> logits = logits_.download(of_code_ ? 2 * n : n);
  chances_.clear();
  for (size_t i = 0; i < before.size(); ++i) {
    const float logit = logits[i] + (of_code_ ? logits[before.size() + i] : 0.0F);
    // Without numbers nothing speaks for a draft.
    chances_.push_back(std::isnan(logit) ? 0.0F : 1.0F / (1.0F + std::exp(-logit)));
  }
  return chances_;
}

}  // namespace ashlar
