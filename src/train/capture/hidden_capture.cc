// SPDX-License-Identifier: Apache-2.0
#include "train/capture/hidden_capture.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace ashlar {
namespace {

// Documents are short, so that several go together.
constexpr int32_t kDocumentsTogether = 32;

}  // namespace

HiddenCapture::HiddenCapture(Model& model, std::span<const int32_t> layers, int32_t max_tokens, int32_t rows,
                             bool final_hidden)
    : width_(static_cast<int32_t>(layers.size()) * model.config().stack.hidden),
      wants_final_(final_hidden),
      max_tokens_(max_tokens),
      forward_(model, max_tokens, rows, kDocumentsTogether) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 0 || layers[i] >= model.config().stack.n_layers) {
      throw Error("train", "auxiliary hidden states of layer " + std::to_string(layers[i]) + " are asked for; " +
                               model.config().folder.string() + " has layers 0 to " +
                               std::to_string(model.config().stack.n_layers - 1));
    }
    layers_.push_back({layers[i], static_cast<int32_t>(i) * model.config().stack.hidden});
  }
  std::stable_sort(layers_.begin(), layers_.end(),
                   [](const AuxLayer& a, const AuxLayer& b) { return a.layer < b.layer; });
}

// In chunks, the last of which is shorter.
void HiddenCapture::capture_long(std::span<const int32_t> ids, Tensor to, Tensor final_to) {
  Ops& ops = forward_.model().ops();
  for (int32_t start = 0; start < to.rows; start += forward_.max_rows()) {
    const int32_t rows = std::min(forward_.max_rows(), to.rows - start);
    const Tensor outputs =
        forward_.forward(ids, start, rows, wants_final_ ? start : to.rows, {layers_, to.part(start, rows)});
    if (wants_final_) ops.copy(outputs, final_to.part(start, rows));
  }
}

std::span<const Tensor> HiddenCapture::capture(std::span<const std::span<const int32_t>> documents) {
  Ops& ops = forward_.model().ops();
  size_t tokens = 0;
  for (const std::span<const int32_t> ids : documents) {
    ASHLAR_CHECK_LE(ids.size(), static_cast<size_t>(max_tokens_));
    tokens += ids.size();
  }
  const size_t bytes = tokens * static_cast<size_t>(token_bytes());
  if (storage_ == nullptr || storage_->size() < bytes) {
    storage_.reset();
    storage_ = ops.allocate(bytes);
  }
  const auto n_rows = static_cast<int32_t>(tokens);
  Tensor rest = {storage_->data(), n_rows, width_, width_, ops.activation_type()};
  Tensor final_rest = {storage_->data() + tokens * static_cast<size_t>(width_) * bytes_of(rest.dtype), n_rows,
                       final_width(), final_width(), rest.dtype};
  documents_.clear();
  finals_.clear();
  while (!documents.empty()) {
    const size_t n = std::max<size_t>(1, forward_.fitting(documents));
    const Tensor first = rest;
    const Tensor final_first = final_rest;
    for (const std::span<const int32_t> ids : documents.first(n)) {
      documents_.push_back(rest.narrow(static_cast<int32_t>(ids.size())));
      rest = rest.skip(static_cast<int32_t>(ids.size()));
      if (!wants_final_) continue;
      finals_.push_back(final_rest.narrow(static_cast<int32_t>(ids.size())));
      final_rest = final_rest.skip(static_cast<int32_t>(ids.size()));
    }
    const Tensor together = first.narrow(first.rows - rest.rows);
    const Tensor final_together = final_first.narrow(together.rows);
    if (together.rows > forward_.max_rows()) {
      capture_long(documents.front(), together, final_together);
    } else if (together.rows > 0) {
      const Tensor outputs = forward_.forward_whole(documents.first(n), {layers_, together}, wants_final_);
      if (wants_final_) ops.copy(outputs, final_together);
    }
    documents = documents.subspan(n);
  }
  // A download waits for what was computed before it.
  std::byte last[sizeof(float)];
  if (tokens > 0) ops.download(storage_->data(), last, bytes_of(rest.dtype));
  return documents_;
}

int64_t HiddenCapture::token_bytes() const {
  return int64_t{width_ + final_width()} * static_cast<int64_t>(bytes_of(forward_.model().ops().activation_type()));
}

}  // namespace ashlar
