#pragma once
// Log-probabilities of a prompt's own tokens, from the rows before them.

#include <cstdint>

#include "decode/logits.h"
#include "decode/sampler.h"
#include "model/model.h"

namespace ashlar {

/// hidden: [rows, hidden], final hidden states; ids: [rows], the token after each row; out: [rows], each with the `top`
/// likeliest tokens. Logits take no more room than `buffer` has. False: some logits are not numbers.
bool score_prompt(const Model& model, LogitsBuffer& buffer, Tensor hidden, const int32_t* ids, int32_t top,
                  PromptToken* out);

}  // namespace ashlar
