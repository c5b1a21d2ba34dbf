#include "decode/prompt_scores.h"

#include <algorithm>
#include <cmath>

namespace ashlar {
namespace {

void score_row(const float* logits, int32_t vocab, int32_t id, int32_t top, PromptToken& out) {
  const LogNormaliser normaliser = normalise(logits, vocab);
  top_logprobs(logits, vocab, normaliser, top, out.logprobs);
  out.logprobs.token = normaliser.logprob(logits[id]);
  const float own = logits[id];
  int32_t before = 0;
  for (int32_t i = 0; i < id; ++i) before += logits[i] >= own ? 1 : 0;
  for (int32_t i = id + 1; i < vocab; ++i) before += logits[i] > own ? 1 : 0;
  out.rank = before + 1;
}

}  // namespace

bool score_prompt(const Model& model, LogitsBuffer& buffer, Tensor hidden, const int32_t* ids, int32_t top,
                  PromptToken* out) {
  struct Piece {
    const float* logits;
    int32_t vocab;
    const int32_t* ids;
    int32_t top;
    PromptToken* out;
  };
  for (int32_t first = 0; first < hidden.rows; first += buffer.capacity()) {
    const int32_t n = std::min(hidden.rows - first, buffer.capacity());
    model.head(hidden.part(first, n), buffer.rows(n));
    Piece piece = {buffer.host(n), model.config().vocab, ids + first, top, out + first};
    model.ops().for_each(
        n,
        [](void* context, int32_t r) {
          const auto& p = *static_cast<const Piece*>(context);
          score_row(p.logits + int64_t{r} * p.vocab, p.vocab, p.ids[r], p.top, p.out[r]);
        },
        &piece);
  }
  return std::none_of(out, out + hidden.rows,
                      [](const PromptToken& token) { return std::isnan(token.logprobs.token); });
}

}  // namespace ashlar
