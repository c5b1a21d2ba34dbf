// SPDX-License-Identifier: Apache-2.0
#include "decode/verify/verify.h"

#include <algorithm>

#include "decode/span_error.h"

namespace ashlar {

bool needs_only_choice(const Slot& slot) {
  const SamplingParams& params = slot.params;
  return params.takes_highest() && !params.wants_logprobs() && slot.constraint == nullptr;
}

void SpanWalk::begin(const VerifyInput& input, int32_t vocab, Slot& slot, SpanResult& result, TokenLogprobs* logprobs) {
  input_ = input;
  vocab_ = vocab;
  slot_ = &slot;
  result_ = &result;
  logprobs_ = logprobs;
  ended_ = false;
  row_ = n_asked_ = 0;
  masked_ = Masked::kNo;
}

void SpanWalk::take_highest(std::span<const int32_t> tokens) {
  RowChoice choice;
  while (!ended_ && row_ >= 0) {
    choice.token = tokens[static_cast<size_t>(row_)];
    take(choice);
  }
  ended_ = true;
}

void SpanWalk::find_mask() {
  run_for_span(*slot_, *result_, [&] {
    if (row_ < 0) {
      slot_->constraint->prepare();  // for the next step, while others are busy
      ended_ = true;
    } else if (!slot_->constraint->prepare()) {
      result_->cut = true;
      result_->n_accepted = std::max(result_->n_tokens - 1, 0);  // the last one is not confirmed by a row of its own
      ended_ = true;
    } else if ((masked_ = constrain(*slot_, vocab_, allowed_)) == Masked::kAll) {
      end(SpanEnd::kError);
    }
  });
  ended_ = ended_ || slot_->done;
}

RowRequest SpanWalk::request_for(int32_t row, int32_t index) const {
  const SamplingParams& params = slot_->params;
  RowRequest request;
  request.row = input_.first_row + row;
  request.position = input_.start + result_->n_tokens + index + 1;
  request.params = &params;
  request.seen = {&slot_->counts, {assumed_, static_cast<size_t>(index)}, -1};
  request.top_logprobs = params.top_logprobs;
  if (masked_ == Masked::kSome) request.allowed = allowed_;
  if (params.scheme == SamplingScheme::kRejection && !params.greedy()) {
    request.pick = Pick::kVerified;
    if (row + 1 < input_.n) {
      request.token = input_.drafts[row];
      request.draft_q = input_.draft_q != nullptr ? input_.draft_q[row] : nullptr;
    }
  }
  return request;
}

// A constraint's masks come one at a time. The row after another is that of its first draft: the likeliest.
void SpanWalk::ask(int32_t most, std::vector<RowRequest>& requests) {
  n_asked_ = 0;
  if (ended_) return;
  if (is_constrained()) most = 1;
  for (int32_t row = row_;; ++row) {
    requests.push_back(request_for(row, n_asked_));
    asked_[n_asked_++] = row;
    const bool follows = row + 1 < input_.n && (input_.parents == nullptr || input_.parents[row + 1] == row);
    if (n_asked_ >= most || !follows) return;
    assumed_[n_asked_ - 1] = input_.drafts[row];
  }
}

void SpanWalk::learn(std::span<const RowChoice> choices) {
  if (ended_) return;
  run_for_span(*slot_, *result_, [&] {
    for (int32_t i = 0; i < n_asked_ && !ended_ && row_ == asked_[i]; ++i) take(choices[static_cast<size_t>(i)]);
  });
  ended_ = ended_ || slot_->done || (row_ < 0 && !is_constrained());
}

// The row whose token is `token` after that of `row`, or -1. Rows of a tree stand depth first, so that it comes later.
int32_t SpanWalk::next_row(int32_t row, int32_t token) const {
  if (input_.parents == nullptr) return row + 1 < input_.n && input_.drafts[row] == token ? row + 1 : -1;
  for (int32_t r = row + 1; r < input_.n; ++r) {
    if (input_.parents[r] == row && input_.drafts[r - 1] == token) return r;
  }
  return -1;
}

void SpanWalk::end(SpanEnd why) {
  result_->end = why;
  slot_->done = true;
  ended_ = true;
}

void SpanWalk::take(const RowChoice& choice) {
  const int32_t token = choice.token;
  if (token < 0) return end(SpanEnd::kNoNumbers);
  if (masked_ == Masked::kSome && !is_allowed(allowed_, token)) return end(SpanEnd::kError);
  SpanResult& result = *result_;
  if (slot_->params.wants_logprobs()) logprobs_[result.n_tokens] = choice.logprobs;
  if (input_.path != nullptr) input_.path[result.n_tokens] = row_;
  result.tokens[result.n_tokens++] = token;
  slot_->token_before = slot_->last_token;
  slot_->last_token = token;
  if (slot_->constraint != nullptr) slot_->constraint->advance(token);
  if (slot_->params.has_penalties()) slot_->counts.add_answer(token);
  row_ = next_row(row_, token);
  if (row_ >= 0) ++result.n_accepted;
  if (std::find(slot_->stop_ids.begin(), slot_->stop_ids.end(), token) != slot_->stop_ids.end()) {
    end(SpanEnd::kStop);
  } else if (input_.start + result.n_tokens + 1 >= slot_->limit) {
    end(SpanEnd::kLength);
  }
}

void Verifier::reserve(int32_t max_rows, int32_t max_spans) {
  constrained_.reserve(static_cast<size_t>(max_spans));
  requests_.reserve(static_cast<size_t>(max_rows));
  choices_.resize(static_cast<size_t>(max_rows));
}

void Verifier::verify(Ops& ops, Tensor logits, std::span<SpanWalk> walks) {
  for (;;) {
    find_masks(ops, walks);
    const auto n = std::count_if(walks.begin(), walks.end(), [](const SpanWalk& walk) { return !walk.ended(); });
    if (n == 0) return;
    const int32_t most = std::max(1, ops.rows_at_once() / static_cast<int32_t>(n));
    requests_.clear();
    for (SpanWalk& walk : walks) walk.ask(most, requests_);
    ops.choose(logits, requests_, std::span(choices_).first(requests_.size()));
    size_t first = 0;
    for (SpanWalk& walk : walks) {
      walk.learn(std::span(choices_).subspan(first, static_cast<size_t>(walk.n_asked())));
      first += static_cast<size_t>(walk.n_asked());
    }
  }
}

// Masks of different requests may take a quarter of a millisecond each.
void Verifier::find_masks(Ops& ops, std::span<SpanWalk> walks) {
  constrained_.clear();
  for (SpanWalk& walk : walks) {
    if (!walk.ended() && walk.is_constrained()) constrained_.push_back(&walk);
  }
  if (constrained_.empty()) return;
  ops.for_each(
      static_cast<int32_t>(constrained_.size()),
      [](void* context, int32_t i) {
        (*static_cast<std::vector<SpanWalk*>*>(context))[static_cast<size_t>(i)]->find_mask();
      },
      &constrained_);
}

}  // namespace ashlar
