// SPDX-License-Identifier: Apache-2.0
#pragma once
// What heads have in common whose drafts are chosen one after the other: to the logits of a position comes what the
// tokens before it add, a product over the vocabulary for every position in its turn.

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/ops.h"

namespace ashlar {

class InTurnHead {
 public:
  virtual ~InTurnHead() = default;
  virtual size_t bytes_read() const = 0;  ///< of weights, for each position
  /// For calls of up to `blocks` blocks.
  virtual void reserve(Ops& ops, int32_t blocks) = 0;

  struct Step {
    int32_t row = 0;    ///< of hidden and logits: a position
    int32_t token = 0;  ///< which comes before it
    int32_t block = 0;  ///< which block, of those that take turns together
    int32_t draft = 1;  ///< its place in the block, from 1; the same for all steps of a call
  };
  /// Adds to the logits of these rows, of each block one; a block's calls are for its drafts in their order. hidden:
  /// [rows, hidden], logits: [rows, draft_vocab] in fp32.
  virtual void add(Ops& ops, Tensor hidden, Tensor logits, std::span<const Step> steps) = 0;
};

}  // namespace ashlar
