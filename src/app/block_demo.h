// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a model that fills blocks writes: its answers form block by block, then it is timed against itself with one token
// a forward.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "app/prompts.h"
#include "io/json.h"
#include "session/session.h"

namespace ashlar {

/// A token of a block.
struct BlockPiece {
  std::string text;
  int32_t pass = 0;  ///< over its block, from 0, that unmasked it
};
using BlockPieces = std::vector<BlockPiece>;

/// What the block looks like after each pass, in one line each: masked positions are shaded as wide as the text that
/// will stand there, line ends are shown as signs. All lines are equally wide; `columns` says how wide.
std::vector<std::string> block_frames(const BlockPieces& block, int* columns);

struct BlockDemoOptions {
  SamplingParams sampling;
  int32_t max_tokens = 0;
  int32_t rounds = 1;  ///< how often each prompt is measured; the best counts
  bool color = false;
  std::chrono::milliseconds pause{0};  ///< between passes, on a terminal; 0: answers are written as plain text
};

/// Shows the answers on standard output, then one line of figures, which it also gives back: prompts,
/// tokens_per_forward, tokens_per_second, one_per_forward_tokens_per_second, speed_up; null if it was interrupted. The
/// session's model fills blocks and its engine may run.
Json demo_blocks(Session& session, const std::vector<Prompt>& prompts, const BlockDemoOptions& options);

/// The prompt as the demonstrations ask it.
Request demo_request(const Session& session, const Prompt& prompt, const SamplingParams& sampling, int32_t max_tokens);

}  // namespace ashlar
