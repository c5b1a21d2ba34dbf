// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a request may ask of sampling. Together with weights, prompt and seed these determine its tokens.

#include <cstdint>
#include <utility>
#include <vector>

namespace ashlar {

enum class SamplingScheme : uint8_t {
  kCoupled,    ///< Gumbel-max on counter-based noise: the same tokens with any drafter or none
  kRejection,  ///< accept a draft with min(1, p/q): lossless in distribution only
};

struct SamplingParams {
  double temperature = 0.0;  ///< 0, or next to it: greedy
  int32_t top_k = 0;         ///< 0: off
  double top_p = 1.0;        ///< keep the most likely tokens while the mass before them is below this
  double min_p = 0.0;        ///< keep tokens at least this likely relative to the most likely one
  double repetition_penalty =
      1.0;  ///< divides positive logits of seen tokens (prompt and answer), multiplies negative ones
  double presence_penalty = 0.0;   ///< subtracted once from tokens of the answer
  double frequency_penalty = 0.0;  ///< subtracted per occurrence in the answer
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
  SamplingScheme scheme = SamplingScheme::kCoupled;
  int32_t top_logprobs = -1;  ///< -1: none; 0: the token's own; n: also the n most likely, at most kMaxTopLogprobs

  /// Below this no noise lifts a token over a likelier one, and logits over the temperature are no numbers any more.
  bool greedy() const { return temperature < 1e-30; }
  bool has_penalties() const {
    return repetition_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0;
  }
  /// Whether some tokens are kept and others are not.
  bool filters() const { return top_k > 0 || top_p < 1.0 || min_p > 0.0; }
  /// The token is the one with the highest raw logit.
  bool takes_highest() const { return greedy() && logit_bias.empty() && !has_penalties(); }
  bool wants_logprobs() const { return top_logprobs >= 0; }
};

inline constexpr int32_t kMaxTopLogprobs = 20;

}  // namespace ashlar
