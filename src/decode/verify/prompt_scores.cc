// SPDX-License-Identifier: Apache-2.0
#include "decode/verify/prompt_scores.h"

#include <algorithm>
#include <cmath>

namespace ashlar {

bool PromptScorer::score(const Model& model, LogitsBuffer& buffer, Tensor hidden, const int32_t* ids, int32_t top,
                         PromptToken* out) {
  for (int32_t first = 0; first < hidden.rows; first += buffer.capacity()) {
    const int32_t n = std::min(hidden.rows - first, buffer.capacity());
    model.head(hidden.part(first, n), buffer.rows(n));
    requests_.clear();
    for (int32_t r = 0; r < n; ++r) {
      RowRequest& request = requests_.emplace_back();
      request.pick = Pick::kGiven;
      request.row = r;
      request.token = ids[first + r];
      request.top_logprobs = top;
    }
    const auto choices = std::span(choices_).first(requests_.size());
    model.ops().choose(buffer.rows(n), requests_, choices);
    for (int32_t r = 0; r < n; ++r) {
      out[first + r] = {choices[static_cast<size_t>(r)].rank, choices[static_cast<size_t>(r)].logprobs};
    }
  }
  return std::none_of(out, out + hidden.rows,
                      [](const PromptToken& token) { return std::isnan(token.logprobs.token); });
}

}  // namespace ashlar
