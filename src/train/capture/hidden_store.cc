// SPDX-License-Identifier: Apache-2.0
#include "train/capture/hidden_store.h"

#include "io/mapped_file.h"

namespace ashlar {

bool HiddenStore::has(size_t document) const { return file_exists(path_of(document)); }

Tensor StoredHidden::place(const HiddenFile& file, Read read, int32_t rows, int32_t cols, std::byte*& to) {
  const DType type = ops_.activation_type();
  staging_.resize(static_cast<size_t>(rows) * static_cast<size_t>(cols) * bytes_of(type));
  (file.*read)(type, staging_.data());
  ops_.upload(staging_.data(), to, staging_.size());
  const Tensor out = {to, rows, cols, cols, type};
  to += staging_.size();
  return out;
}

std::span<const Tensor> StoredHidden::load(std::span<const StoredDocument> documents) {
  const HiddenLayout& layout = store_.layout();
  const int32_t final_width = layout.final_hidden ? layout.hidden : 0;
  size_t tokens = 0;
  for (const StoredDocument& document : documents) tokens += document.ids.size();
  const size_t bytes = tokens * static_cast<size_t>(layout.width() + final_width) * bytes_of(ops_.activation_type());
  if (storage_ == nullptr || storage_->size() < bytes) {
    storage_.reset();
    storage_ = ops_.allocate(bytes);
  }
  documents_.clear();
  finals_.clear();
  std::byte* next = storage_->data();
  for (const StoredDocument& document : documents) {
    const HiddenFile file = store_.open(document.document, document.ids);
    const auto rows = static_cast<int32_t>(document.ids.size());
    documents_.push_back(place(file, &HiddenFile::read_aux, rows, layout.width(), next));
    if (final_width > 0) finals_.push_back(place(file, &HiddenFile::read_final, rows, final_width, next));
  }
  // A download waits for what was uploaded before it.
  std::byte last[sizeof(float)];
  if (bytes > 0) ops_.download(storage_->data(), last, bytes_of(ops_.activation_type()));
  return documents_;
}

}  // namespace ashlar
