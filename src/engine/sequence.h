// SPDX-License-Identifier: Apache-2.0
#pragma once
// A request on its way through the engine.

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/prefix_index.h"
#include "decode/decoder.h"
#include "engine/request.h"

namespace ashlar {

enum class SequenceState : uint8_t {
  kWaiting,     ///< in the queue; holds no slot and no page
  kPrefill,     ///< some tokens are not planned yet
  kDecode,      ///< everything known is planned; each step appends
  kPreempting,  ///< goes back to the queue when its last step in flight has ended
  kRetiring,    ///< its end was reported; slot and pages go when its last step in flight has ended
};

/// Pages that `tokens` tokens of one sequence take.
inline int32_t pages_for(int64_t tokens) { return static_cast<int32_t>((tokens + kPageTokens - 1) / kPageTokens); }

struct Sequence {
  RequestId id = 0;
  Request request;
  std::vector<int32_t> tokens;  ///< prompt and answer; capacity `limit`, so that launches may point into it
  std::vector<int32_t>
      pages;  ///< page i holds K and V of positions [16 i, 16 i + 16); capacity for `limit`, entries never move
  int32_t prompt_length = 0;
  int32_t limit = 0;  ///< most tokens, prompt included
  StepShape shape;

  SequenceState state = SequenceState::kWaiting;
  int32_t slot = -1;
  int32_t prefill_end = 0;      ///< tokens to prefill since the newest admission
  int32_t cached = 0;           ///< of those, in the cache then
  int32_t planned = 0;          ///< of those, cached or planned
  int32_t inflight = 0;         ///< steps that include this sequence and are not collected
  int32_t inflight_tokens = 0;  ///< most tokens those steps may append
  int32_t inflight_min = 0;     ///< tokens they append for certain, unless the sequence ends
  int32_t left_out = 0;         ///< turns since its constraint began to wait for the mask of the next token
  int32_t next_scored = 0;      ///< the next token of the prompt whose log-probability is to be reported
  int32_t next_hidden = 0;      ///< the next token of the prompt whose hidden states are to be reported
  int32_t block_pass = 0;       ///< SpanResult::pass of the newest step
  int32_t newest_rows = 0;      ///< rows that its newest decode span used; 0: not known
  bool ended = false;           ///< on_end was called
  bool admitted_before = false;
  RequestStats stats;

  int32_t snapshot = -1;  ///< held: of the recurrent states that the first span since admission begins with
  /// Tokens after which the states of recurrent layers are to be kept as snapshots: where the match of published pages
  /// ended, since others may share them too, and at the end of the prompt's whole pages. 0: none.
  int32_t keep_states_at[2] = {0, 0};

  PrefixCursor prefix;  ///< how far the tokens were found in the cache, or published there

  bool scores_prompt() const { return next_scored < prompt_length; }
  bool reports_hidden() const { return request.hidden_states && next_hidden < prompt_length; }

  /// Tokens whose K and V are in the cache for certain: all but the newest, or those of the newest block.
  int32_t computed = 0;

  bool waits_for_mask() const { return request.constraint && request.constraint->waits(); }
};

}  // namespace ashlar
