// SPDX-License-Identifier: Apache-2.0
#include "model/sequence_forward.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ashlar {
namespace {

int32_t pages_of(size_t tokens) { return static_cast<int32_t>((tokens + kPageTokens - 1) / kPageTokens); }

}  // namespace

// Several sequences need as many rows as one forward may have, each in pages of its own.
SequenceForward::SequenceForward(Model& model, int32_t max_tokens, int32_t max_rows, int32_t max_sequences)
    : model_(model),
      max_sequences_(max_sequences),
      batch_(model.ops(), max_sequences > 1 ? max_rows : std::min(max_rows, max_tokens), max_sequences),
      pages_(model.ops(), std::max(pages_of(static_cast<size_t>(max_tokens)),
                                   pages_of(static_cast<size_t>(batch_.max_rows())) + max_sequences - 1)) {
  KvLayout layout;
  model.register_state(layout);
  kv_ = std::make_unique<KvMemory>(model.ops(), layout, static_cast<int32_t>(pages_.size()), max_sequences);
  std::vector<int32_t> pages(static_cast<size_t>(pages_.size()));
  std::iota(pages.begin(), pages.end(), 0);
  pages_.upload(pages);
  model.reserve(batch_.max_rows());
}

Tensor SequenceForward::forward(std::span<const int32_t> ids, int32_t start, int32_t rows, int32_t first_output,
                                const AuxHiddenRequest& aux) {
  batch_.clear();
  // A recurrent layer has the last row of the chunk before in its log; slot 0 is the only one.
  StateSpan state;
  state.replays = start > 0 ? 1 : 0;
  batch_.begin_sequence(pages_.device(), 0, state);
  for (int32_t row = start; row < start + rows; ++row) {
    batch_.add_row(ids[static_cast<size_t>(row)], row, static_cast<int32_t>(ids.size()));
    if (row >= first_output) batch_.want_output();
  }
  return model_.forward(batch_, *kv_, aux);
}

size_t SequenceForward::fitting(std::span<const std::span<const int32_t>> sequences) const {
  size_t n = 0;
  auto rows = static_cast<size_t>(max_rows());
  for (; n < sequences.size() && n < static_cast<size_t>(max_sequences_) && sequences[n].size() <= rows; ++n) {
    rows -= sequences[n].size();
  }
  return n;
}

Tensor SequenceForward::forward_whole(std::span<const std::span<const int32_t>> sequences, const AuxHiddenRequest& aux,
                                      bool outputs) {
  batch_.clear();
  StateSpan state;
  int32_t page = 0;
  for (const std::span<const int32_t> ids : sequences) {
    batch_.begin_sequence(pages_.device() + page, 0, state);
    const auto n = static_cast<int32_t>(ids.size());
    for (int32_t row = 0; row < n; ++row) {
      batch_.add_row(ids[static_cast<size_t>(row)], row, n);
      if (outputs) batch_.want_output();
    }
    page += pages_of(ids.size());
    ++state.slot;
  }
  return model_.forward(batch_, *kv_, aux);
}

}  // namespace ashlar
