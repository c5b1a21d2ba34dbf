// SPDX-License-Identifier: Apache-2.0
#include "train/capture/hidden_store.h"

#include "io/durable_file.h"
#include "io/mapped_file.h"

namespace ashlar {

void HiddenStore::remove_abandoned() const {
  ashlar::remove_abandoned(
      folder_, [](std::string_view name) { return name.starts_with("hs_") && name.ends_with(".safetensors"); });
}

bool HiddenStore::has(size_t document) const { return file_exists(path_of(document)); }

Tensor StoredHidden::place(const HiddenFile& file, Read read, int32_t rows, int32_t cols, std::byte*& to) {
  Ops& ops = model_.ops();
  const DType type = ops.activation_type();
  staging_.resize(static_cast<size_t>(rows) * static_cast<size_t>(cols) * bytes_of(type));
  (file.*read)(type, staging_.data());
  ops.upload(staging_.data(), to, staging_.size());
  const Tensor out = {to, rows, cols, cols, type};
  to += staging_.size();
  return out;
}

std::span<const Tensor> StoredHidden::load(std::span<const StoredDocument> documents) {
  Ops& ops = model_.ops();
  const int32_t final_width = layout_.final_hidden ? layout_.hidden : 0;
  size_t tokens = 0;
  for (const StoredDocument& document : documents) tokens += document.ids.size();
  const size_t bytes = tokens * static_cast<size_t>(layout_.width() + final_width) * bytes_of(ops.activation_type());
  if (storage_ == nullptr || storage_->size() < bytes) {
    storage_.reset();
    storage_ = ops.allocate(bytes);
  }
  documents_.clear();
  finals_.clear();
  std::byte* next = storage_->data();
  for (const StoredDocument& document : documents) {
    HiddenLayout layout = layout_;
    layout.final_hidden = layout.final_hidden && document.has_final;
    const HiddenFile file(document.path, document.ids, layout);
    if (checked_.insert(document.path.string()).second) file.check_content();
    const auto rows = static_cast<int32_t>(document.ids.size());
    documents_.push_back(place(file, &HiddenFile::read_aux, rows, layout.width(), next));
    if (final_width == 0) continue;
    finals_.push_back(
        place(file, document.has_final ? &HiddenFile::read_final : &HiddenFile::read_last, rows, final_width, next));
    if (document.has_final) continue;
    const Tensor last = finals_.back();
    ops.rms_norm(last, model_.norm_weight(), model_.config().stack.norm_eps, last);
  }
  // A download waits for what was uploaded before it.
  std::byte last[sizeof(float)];
  if (bytes > 0) ops.download(storage_->data(), last, bytes_of(ops.activation_type()));
  return documents_;
}

}  // namespace ashlar
