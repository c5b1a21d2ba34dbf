// SPDX-License-Identifier: Apache-2.0
#pragma once
// What heads that choose among the likeliest tokens of each position have in common: what a token scores after each
// candidate of the position before. They differ in where the scores come from.

#include <cstdint>
#include <span>

#include "device/ops.h"

namespace ashlar {

/// What a candidate head says of rows, in host memory.
struct SelectedEdges {
  int32_t n = 0;                  ///< candidates of a row
  std::span<const int32_t> ids;   ///< [rows, n], those with the highest logits first
  std::span<const float> scores;  ///< [rows, n, n]: candidate by candidate of the row before

  const int32_t* candidates(int32_t row) const { return ids.data() + int64_t{row} * n; }
  /// Scores of the row's candidates after candidate `before` of the row before; 0 where the row begins a block.
  const float* after(int32_t row, int32_t before) const { return scores.data() + (int64_t{row} * n + before) * n; }
};

/// Rows of blocks, the first of them a block's first.
struct CandidateRows {
  struct Begin {
    int32_t row = 0;    ///< a block's first
    int32_t token = 0;  ///< which comes before that
  };
  Tensor hidden;                  ///< [rows, hidden]: what DflashDrafter::forward() gives
  Tensor logits;                  ///< [rows, vocab], fp32; not as they were after the call
  std::span<const Begin> begins;  ///< ascending
  Tensor features;                ///< [blocks, hidden], where the head sees_blocks(); of the row before each last token
};

class CandidateHead {
 public:
  virtual ~CandidateHead() = default;
  virtual int32_t candidates() const = 0;  ///< of a position
  /// Whether scores depend on all positions of the block, so that it is worth asking about whole blocks, and on what
  /// the target's features say of the token before the last one.
  virtual bool sees_blocks() const { return false; }
  virtual size_t bytes_read() const = 0;  ///< of weights, by a call
  /// For up to `rows` rows a call.
  virtual void reserve(Ops& ops, int32_t rows) = 0;
  /// Waits. Valid until the next call.
  virtual SelectedEdges score(Ops& ops, const CandidateRows& rows) = 0;
};

}  // namespace ashlar
