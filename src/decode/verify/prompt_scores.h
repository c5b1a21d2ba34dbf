// SPDX-License-Identifier: Apache-2.0
#pragma once
// Log-probabilities of a prompt's own tokens, from the rows before them.

#include <cstdint>
#include <vector>

#include "decode/logits.h"
#include "decode/verify/prompt_token.h"
#include "model/model.h"

namespace ashlar {

class PromptScorer {
 public:
  void reserve(int32_t rows) {
    requests_.reserve(static_cast<size_t>(rows));
    choices_.resize(static_cast<size_t>(rows));
  }
  /// hidden: [rows, hidden], final hidden states; ids: [rows], the token after each row; out: [rows], each with the
  /// `top` likeliest tokens. Logits take no more room than `buffer` has, whose rows were reserved. False: some logits
  /// are not numbers.
  bool score(const Model& model, LogitsBuffer& buffer, Tensor hidden, const int32_t* ids, int32_t top,
             PromptToken* out);

 private:
  std::vector<RowRequest> requests_;
  std::vector<RowChoice> choices_;
};

}  // namespace ashlar
