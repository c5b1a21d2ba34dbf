// SPDX-License-Identifier: Apache-2.0
#pragma once
// The blocks of some documents as rows: who sees what, where rows stand, which slots have labels.

#include <cstdint>
#include <span>
#include <vector>

#include "train/drafter_trainer.h"

namespace ashlar {

/// Positions of a document that a block may begin at and has something to learn from: supervised, as serving drafts
/// after a token of the answer, with a supervised successor. At most `max_anchors` of them, drawn without replacement
/// by a Philox stream of (seed, step, document); ascending.
/// `first`: before it there are none.
DrafterTrainer::Anchors draw_anchors(const TrainDocument& document, int32_t max_anchors, uint64_t seed, uint64_t step,
                                     uint32_t index, int32_t first = 0);

struct BlockBatch {
  int32_t context_rows = 0;
  std::vector<BlockContext> blocks;
  std::vector<int32_t> ids;         ///< [block rows]
  std::vector<int32_t> texts;       ///< [block rows]: the document's own tokens there; after its end the last one
  std::vector<int32_t> next;        ///< [context rows]: the token after each
  std::vector<int32_t> positions;   ///< [context rows + block rows]
  std::vector<int32_t> label_rows;  ///< block rows that have a label, ascending
  std::vector<int32_t> labels;      ///< of those, as rows of the head
  std::vector<int32_t> lost_rows;   ///< block rows whose supervised token is not drafted, ascending
  std::vector<int32_t> before;      ///< the document's token before each label
  std::vector<Tensor> aux_hidden;   ///< of each document with anchors: [its context rows, aux_width]
  /// Of each document with anchors that brings them, the target's rows before the head; and of each label the row that
  /// predicts its token.
  std::vector<Tensor> final_hidden;
  std::vector<int32_t> target_rows;
  int32_t n_target_rows = 0;
  int32_t max_position = 0;

  int32_t block_rows() const { return static_cast<int32_t>(ids.size()); }
  /// Adds a document with its anchors. Context rows after the last anchor are left out: no block sees them.
  void add(const TrainDocument& document, std::span<const int32_t> anchors, const TrainShape& shape);
};

/// Labels that add() will find.
template <class Fn>
void for_labels(const TrainDocument& document, std::span<const int32_t> anchors, int32_t block, const Fn& fn) {
  const auto size = static_cast<int32_t>(document.ids.size());
  for (size_t b = 0; b < anchors.size(); ++b) {
    for (int32_t slot = 1; slot < block && anchors[b] + slot < size; ++slot) {
      if (document.supervised[static_cast<size_t>(anchors[b] + slot)] != 0) fn(static_cast<int32_t>(b), slot);
    }
  }
}

}  // namespace ashlar
