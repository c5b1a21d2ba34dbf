// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the ops are given that train drafters' heads: convolutions over the rows of blocks, and candidates of rows of
// logits among which a selector chooses. Source: DFlash2 (z-lab/dflash; its losses: speculators).

#include <cstdint>

#include "device/draft_heads.h"

namespace ashlar {

/// A grouped convolution along the rows of blocks, which see nothing of the block before theirs:
/// out[r, c] = sum over taps t of (base[t, c] + dynamic[r, t * groups + c / group]) * x[r - t, c].
struct BlockConvolution {
  Tensor x;          ///< [rows, channels]
  Tensor dynamic;    ///< [rows, taps * channels / group]
  GroupedConv conv;  ///< whose base is fp32
  int32_t block = 1;

  int32_t groups() const { return x.cols / conv.group; }
  /// How many taps row r has.
  int32_t taps_of(int32_t r) const { return r % block < conv.taps ? r % block + 1 : conv.taps; }
};

/// Rows that choose among their candidates: candidate b after token a scores S = U[b] + scale * sum of A[a] * P * B[b],
/// with U the row's logits, P its projection and A, B two tables of codes. At most kMaxCandidates a row.
struct ChoosingRows {
  Candidates candidates;            ///< the likeliest of the rows' logits, as Ops::find_candidates has them
  const int32_t* labels = nullptr;  ///< [rows]
  const int32_t* before = nullptr;  ///< [rows]: the token before each label
  Tensor hidden;                    ///< [rows, hidden]: logits are hidden head^T
  Tensor head;                      ///< [vocab, hidden]
  Tensor projected;                 ///< [rows, rank]: P, fp32
  Tensor predecessors;              ///< [vocab, rank]: A
  Tensor successors;                ///< [vocab, rank]: B
  float scale = 1;

  int32_t n_rows() const { return hidden.rows; }
  int32_t rank() const { return projected.cols; }
};

/// Gradients of rows that choose, fp32; each row's times its weight. Those of tables of codes are sums over the rows of
/// a token, which TrainOps::add_rows makes: `before` for A[before], and for B[candidate] d S * `after`.
struct CandidateGradients {
  Tensor hidden;     ///< [rows, hidden], through the logits
  Tensor projected;  ///< [rows, rank]
  Tensor before;     ///< [rows, rank]
  Tensor after;      ///< [rows, rank]
};

}  // namespace ashlar
