// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the ops of drafters' heads are given: convolutions over a block's rows, and candidates with the scores of their
// edges (DFlash2, z-lab/dflash), or with attention among them (LiLiCorr, arXiv 2608.20530).

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

/// Attention among the candidates of all positions of a block, which see each other whatever their order. A row is a
/// candidate; those of a position stand one after the other, and so do the positions of a block.
struct CandidateAttention {
  int32_t n = 0;      ///< candidates of a position
  int32_t heads = 0;  ///< that share the columns of queries, keys and values evenly
  int32_t reach = 0;  ///< most positions between two of a block
  /// [heads, 2 * reach + 1]: what is added to a score where the query stands d positions after the key, in column
  /// d + reach.
  const float* bias = nullptr;
  const int32_t* first = nullptr;  ///< [positions]: the first position of its block
  const int32_t* end = nullptr;    ///< [positions]: the position after its block's last
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
