// SPDX-License-Identifier: Apache-2.0
#pragma once
// The block that a sequence is filling: the only state block decoding keeps between passes.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/block/unmask_algorithm.h"
#include "decode/slot_table.h"
#include "device/choose.h"

namespace ashlar {

struct Block {
  int32_t start = 0;                     ///< position of its first token
  int32_t n = 0;                         ///< positions
  int32_t emitted = 0;                   ///< absolute: tokens before this position are the sequence's already
  int32_t pass = 0;                      ///< passes over it so far
  bool uncommitted = false;              ///< K and V of the block before it are not final yet; its tokens are `before`
  bool finished = false;                 ///< no token will change any more
  Positions masked = 0;                  ///< a bitmap, never a token id: a mask token in a prompt is text
  Positions given = 0;                   ///< filled by the prompt
  Positions verify = 0;                  ///< masked positions whose drafts the next pass verifies
  std::array<int32_t, kMaxWidth> ids{};  ///< the mask id at masked positions
  std::array<int32_t, kMaxWidth> before{};
  std::array<int32_t, kMaxWidth> drafts{};  ///< at `verify`
  std::array<int16_t, kMaxWidth> unmask_pass{};
  const UnmaskAlgorithm* algorithm = nullptr;  ///< the sequence's: its own, or the decoder's
  std::unique_ptr<UnmaskAlgorithm> own_algorithm;
  AlgorithmMemory memory;
  // Of the newest pass:
  std::array<int32_t, kMaxWidth> candidates{};
  std::array<float, kMaxWidth> confidence{};
  std::array<RowStatistics, kMaxWidth> statistics{};
  std::vector<TokenLogprobs> logprobs;  ///< [n] if asked for: of the candidate until unmasked, then of the token
  std::vector<TokenLogprobs> unmasked_logprobs;
  bool impossible = false;      ///< the constraint allows no token at the next position
  bool no_numbers = false;      ///< some row's logits are not numbers
  std::vector<int32_t> tokens;  ///< where a pass computes the whole sequence: all of it before `start`

  int32_t end() const { return start + n; }
  Positions positions() const { return first_positions(n); }
  Positions unmasked() const { return positions() & ~masked & ~given; }

  /// Begins the block at `position`, all masked.
  void open(int32_t position, int32_t length, int32_t mask_id);
  /// Fills position i (of the block) with what the prompt has there.
  void give(int32_t i, int32_t id);
  /// Keeps the newest candidates of `positions` as drafts for the next pass to verify.
  void draft(Positions positions);
  /// Those of the verified positions that may be unmasked now: as many as agree with their drafts and one more, `most`
  /// at most. Ends the verification.
  Positions verified(int32_t most);
  /// Fills masked position i, or replaces its token, in the current pass.
  void unmask(int32_t i, int32_t id, const SamplingParams& params, TokenCounts& counts);
};

}  // namespace ashlar
