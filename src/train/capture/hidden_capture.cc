#include "train/capture/hidden_capture.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bf16.h"
#include "base/error.h"

namespace ashlar {
namespace {

// As many rows as the engine takes of a prompt at a time: enough for a product to be fast, few activations.
constexpr int32_t kChunkRows = 256;

}  // namespace

HiddenCapture::HiddenCapture(Model& model, std::span<const int32_t> layers, int32_t max_tokens)
    : width_(static_cast<int32_t>(layers.size()) * model.config().stack.hidden),
      max_tokens_(max_tokens),
      forward_(model, max_tokens, kChunkRows) {
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
  const int32_t rows = forward_.max_rows();
  const DType type = model.ops().activation_type();
  host_.resize(bytes_of(type) * static_cast<size_t>(rows) * static_cast<size_t>(width_));
  storage_ = model.ops().allocate(host_.size());
  rows_ = {storage_->data(), rows, width_, width_, type};
}

void HiddenCapture::capture(std::span<const int32_t> ids, std::span<float> to) {
  const auto n = static_cast<int32_t>(ids.size());
  ASHLAR_CHECK_LE(n, max_tokens_);
  ASHLAR_CHECK_EQ(to.size(), ids.size() * static_cast<size_t>(width_));
  for (int32_t start = 0; start < n; start += rows_.rows) {
    const int32_t rows = std::min(rows_.rows, n - start);
    forward_.forward(ids, start, rows, n, {layers_, rows_});
    const size_t values = static_cast<size_t>(rows) * static_cast<size_t>(width_);
    float* const out = to.data() + static_cast<size_t>(start) * static_cast<size_t>(width_);
    forward_.model().ops().download(storage_->data(), host_.data(), values * bytes_of(rows_.dtype));
    if (rows_.dtype == DType::kF32) {
      std::memcpy(out, host_.data(), values * sizeof(float));
      continue;
    }
    const auto* const narrow = reinterpret_cast<const BFloat16*>(host_.data());
    std::transform(narrow, narrow + values, out, [](BFloat16 value) { return to_float(value); });
  }
}

int64_t HiddenCapture::bytes() const { return forward_.bytes() + static_cast<int64_t>(2 * host_.size()); }

}  // namespace ashlar
