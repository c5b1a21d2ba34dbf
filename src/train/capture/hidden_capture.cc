#include "train/capture/hidden_capture.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "base/bf16.h"
#include "base/error.h"

namespace ashlar {
namespace {

// As many rows as the engine takes of a prompt at a time: enough for a product to be fast, few activations.
constexpr int32_t kChunkRows = 256;

int32_t pages_for(int32_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

HiddenCapture::HiddenCapture(Model& model, std::span<const int32_t> layers, int32_t max_tokens)
    : model_(model),
      width_(static_cast<int32_t>(layers.size()) * model.config().stack.hidden),
      max_tokens_(max_tokens),
      batch_(model.ops(), std::min(kChunkRows, max_tokens), 1),
      pages_(model.ops(), pages_for(max_tokens)) {
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
  KvLayout layout;
  model.register_state(layout);
  kv_ = std::make_unique<KvMemory>(model.ops(), layout, static_cast<int32_t>(pages_.size()));
  std::vector<int32_t> pages(static_cast<size_t>(pages_.size()));
  std::iota(pages.begin(), pages.end(), 0);
  pages_.upload(pages);
  const int32_t rows = batch_.max_rows();
  model.reserve(rows);
  const DType type = model.ops().activation_type();
  host_.resize(bytes_of(type) * static_cast<size_t>(rows) * static_cast<size_t>(width_));
  storage_ = model.ops().allocate(host_.size());
  rows_ = {storage_->data(), rows, width_, width_, type};
}

void HiddenCapture::forward(std::span<const int32_t> ids, int32_t start, int32_t rows) {
  batch_.clear();
  // A recurrent layer has the last row of the chunk before in its log; slot 0 is the only one.
  StateSpan state;
  state.replays = start > 0 ? 1 : 0;
  batch_.begin_sequence(pages_.device(), 0, state);
  for (int32_t row = start; row < start + rows; ++row) {
    batch_.add_row(ids[static_cast<size_t>(row)], row, static_cast<int32_t>(ids.size()));
  }
  model_.forward(batch_, *kv_, {layers_, rows_});
}

void HiddenCapture::capture(std::span<const int32_t> ids, std::span<float> to) {
  const auto n = static_cast<int32_t>(ids.size());
  ASHLAR_CHECK_LE(n, max_tokens_);
  ASHLAR_CHECK_EQ(to.size(), ids.size() * static_cast<size_t>(width_));
  for (int32_t start = 0; start < n; start += rows_.rows) {
    const int32_t rows = std::min(rows_.rows, n - start);
    forward(ids, start, rows);
    const size_t values = static_cast<size_t>(rows) * static_cast<size_t>(width_);
    float* const out = to.data() + static_cast<size_t>(start) * static_cast<size_t>(width_);
    model_.ops().download(storage_->data(), host_.data(), values * bytes_of(rows_.dtype));
    if (rows_.dtype == DType::kF32) {
      std::memcpy(out, host_.data(), values * sizeof(float));
      continue;
    }
    const auto* const narrow = reinterpret_cast<const BFloat16*>(host_.data());
    std::transform(narrow, narrow + values, out, [](BFloat16 value) { return to_float(value); });
  }
}

int64_t HiddenCapture::bytes() const { return kv_->bytes() + static_cast<int64_t>(2 * host_.size()); }

}  // namespace ashlar
