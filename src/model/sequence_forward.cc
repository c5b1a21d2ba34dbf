#include "model/sequence_forward.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ashlar {

SequenceForward::SequenceForward(Model& model, int32_t max_tokens, int32_t max_rows)
    : model_(model),
      batch_(model.ops(), std::min(max_rows, max_tokens), 1),
      pages_(model.ops(), (max_tokens + kPageTokens - 1) / kPageTokens) {
  KvLayout layout;
  model.register_state(layout);
  kv_ = std::make_unique<KvMemory>(model.ops(), layout, static_cast<int32_t>(pages_.size()));
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

}  // namespace ashlar
