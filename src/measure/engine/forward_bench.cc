// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/forward_bench.h"

#include <algorithm>
#include <numeric>

#include "decode/step.h"

namespace ashlar {

ForwardBench::ForwardBench(Model& model, std::vector<int32_t> ids, int32_t context, int32_t max_rows)
    : model_(model), ids_(std::move(ids)), context_(context), max_rows_(max_rows), batch_(model.ops(), max_rows, 1) {
  KvLayout layout;
  layout.keep_log(kMaxWidth);
  model.register_state(layout);
  std::vector<int32_t> pages(ids_.size() / kPageTokens + 1);
  std::iota(pages.begin(), pages.end(), 0);
  pages_ = {model.ops(), static_cast<int64_t>(pages.size())};
  pages_.upload(pages);
  kv_ = std::make_unique<KvMemory>(model.ops(), layout, static_cast<int32_t>(pages_.size()));
  const int32_t vocab = model.config().vocab;
  storage_ = model.ops().allocate(sizeof(float) * kMaxWidth * static_cast<size_t>(vocab));
  logits_ = {storage_->data(), kMaxWidth, vocab, vocab};
  prefill(context);
}

void ForwardBench::verify(int32_t rows) { forward(context_, rows, true, true); }

void ForwardBench::prefill(int32_t tokens) {
  for (int32_t start = 0; start < tokens; start += max_rows_) {
    const int32_t rows = std::min(max_rows_, tokens - start);
    forward(start, rows, false, start + rows == tokens);
  }
}

void ForwardBench::forward(int32_t start, int32_t rows, bool all_outputs, bool head) {
  ASHLAR_CHECK_LE(static_cast<size_t>(start + rows), ids_.size());
  ASHLAR_CHECK(!all_outputs || rows <= kMaxWidth);
  batch_.clear();
  // Rows of a prompt stay; those that are verified stay out of recurrent layers' states, so that a pass may be
  // repeated.
  batch_.begin_sequence(pages_.device(), 0, {0, start > 0 ? replays_ : 0, all_outputs ? rows : 1, {}});
  replays_ = all_outputs ? 0 : 1;
  for (int32_t row = 0; row < rows; ++row) {
    batch_.add_row(ids_[start + row], start + row, start + rows);
    if (all_outputs || (head && row + 1 == rows)) batch_.want_output();
  }
  const Tensor hidden = model_.forward(batch_, *kv_, {});
  if (!head) return;
  model_.head(hidden, logits_.narrow(hidden.rows));
  float first = 0;  // waits for the device
  model_.ops().download(storage_->data(), &first, sizeof(first));
}

}  // namespace ashlar
