// SPDX-License-Identifier: Apache-2.0
#pragma once
// How likely a prompt's own tokens are.

#include <cstdint>

#include "device/choose.h"

namespace ashlar {

/// A token of a prompt, given those before it.
struct PromptToken {
  int32_t rank = 0;  ///< its place among all tokens, the likeliest first (1), the lowest id of equals
  TokenLogprobs logprobs;
};

}  // namespace ashlar
