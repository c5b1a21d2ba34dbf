// SPDX-License-Identifier: Apache-2.0
#pragma once
// From rows of logits to tokens: what decoding asks about a row, and all that it learns. Logits stay on their device.

#include <array>
#include <cstdint>
#include <span>

#include "device/row_statistics.h"
#include "device/sampling/sampling_params.h"
#include "device/sampling/token_counts.h"

namespace ashlar {

/// What is asked about a row.
enum class Pick : uint8_t {
  kToken,      ///< the token that the parameters choose: argmax, or with the noise of the position
  kVerified,   ///< the draft if rejection sampling accepts it, else a token of what is left of the distribution
  kDraft,      ///< a draft for rejection sampling, and the distribution that it was drawn from; temperature above 0
  kLikeliest,  ///< the tokens worth a place in a tree of drafts
  kGiven,      ///< how likely a given token is
};

/// One row and what is asked about it. Pointers are to host memory where nothing else is said, and are read during the
/// call only.
struct RowRequest {
  Pick pick = Pick::kToken;
  int32_t row = 0;                         ///< of the logits
  int32_t position = 0;                    ///< index in the sequence of the token that the row predicts
  const SamplingParams* params = nullptr;  ///< not needed for kGiven

  // What is done to the row first, in this order.
  int32_t excluded = -1;                   ///< this column becomes minus infinity; -1: none
  std::span<const uint32_t> allowed = {};  ///< bit (i % 32) of word i / 32: column i stays; empty: all stay
  SeenTokens seen;                         ///< for penalties, after the bias
  int32_t repeated = -1;                   ///< from this column `repeat_penalty` is subtracted; -1: from none
  float repeat_penalty = 0;
  const int32_t* id_map = nullptr;  ///< column i stands for token id_map[i]; null: for token i

  int32_t token = -1;              ///< kVerified: the draft, -1 for none; kGiven: the token
  const float* draft_q = nullptr;  ///< kVerified, device memory: probabilities [vocab]; null: the draft was certain
  float* distribution = nullptr;   ///< kDraft, out, device memory: probabilities by token id
  int32_t distribution_size = 0;   ///< its entries

  int32_t top_logprobs = -1;  ///< log-probabilities of the row as it came (kToken, kVerified, kGiven); -1: none
  bool statistics = false;    ///< statistics of the row after what is done to it (kToken)
};

/// Log-probabilities of the model itself: of the raw logits, before bias, penalties and temperature.
struct TokenLogprobs {
  float token = 0;
  int32_t n_top = 0;
  int32_t top_ids[kMaxTopLogprobs];
  float top_values[kMaxTopLogprobs];
};

/// The likeliest tokens of one position, best first.
struct LikeliestTokens {
  static constexpr int32_t kMost = 8;
  int32_t n = 0;
  std::array<int32_t, kMost> ids{};
  std::array<float, kMost> log_chance{};
};

struct RowChoice {
  /// -1: nothing could be chosen, since no column that may be is a number. Without an id_map.
  int32_t token = -1;
  float probability = 0;  ///< with `statistics`: of the token, at temperature 1 and without filters
  int32_t rank = 0;       ///< kGiven: its place among all tokens, the likeliest first (1), the lowest id of equals
  RowStatistics statistics;
  TokenLogprobs logprobs;
  LikeliestTokens likeliest;
};

}  // namespace ashlar
