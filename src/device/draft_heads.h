// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the ops of drafters' heads are given: convolutions over a block's rows, and candidates with the scores of their
// edges. Source: DFlash2 (z-lab/dflash).

#include <cstdint>

#include "device/tensor.h"

namespace ashlar {

/// Most candidates of a position.
inline constexpr int32_t kMaxCandidates = 32;
/// Most rows that a grouped convolution reads for one of its own.
inline constexpr int32_t kMaxConvTaps = 16;

/// A causal convolution along the rows of each sequence, whose weights are in part the row's own.
struct GroupedConv {
  int32_t taps = 0;             ///< the row itself and the taps - 1 rows before it
  int32_t group = 0;            ///< neighbouring channels that share what is the row's own
  const float* base = nullptr;  ///< [taps, channels], that of the row itself first
};

/// The likeliest tokens of rows of logits, highest first: [rows, n] each, in device memory.
struct Candidates {
  int32_t n = 0;
  int32_t* ids = nullptr;
  float* logits = nullptr;
};

/// Pairs of candidates that may follow one another. Codes are rows of [rows * n, rank], those of a row's candidates in
/// their order.
struct CandidateEdges {
  Candidates candidates;            ///< of the rows
  const int32_t* begins = nullptr;  ///< [rows]: which block begins with this row; -1: it follows the row before
  Tensor anchors;                   ///< [blocks, rank]: the code of the token before each block, as a predecessor
  Tensor before;                    ///< codes as predecessors of the next row's candidates
  Tensor after;                     ///< codes as successors
  Tensor hidden;                    ///< [rows, rank], fp32
  float scale = 1;                  ///< multiplies what an edge adds to the logit
};

}  // namespace ashlar
