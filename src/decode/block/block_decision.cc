// SPDX-License-Identifier: Apache-2.0
// From the hidden states of a block's rows to what may stand at its positions, and which of it stays.

#include <algorithm>

#include "base/clock.h"
#include "decode/block/block_decoder.h"
#include "decode/span_error.h"
#include "decode/verify/constrain.h"

namespace ashlar {

// Spans whose rows are decided by their statistics alone and spans that need logits take turns, as they come.
void BlockDecoder::find_candidates(const StepPlan& plan, SlotTable& slots, Tensor hidden, StepResult& result) {
  StepTimes& times = result.times;
  const auto plain = [&](size_t i) { return is_plain(slots[plan.spans[i].slot], candidate_options(*work_[i].block)); };
  for (size_t first = 0; first < work_.size();) {
    if (work_[first].n_outputs == 0) {
      ++first;
      continue;
    }
    const bool by_statistics = plain(first);
    size_t last = first;
    int32_t rows = 0;
    for (; last < work_.size() && rows + work_[last].n_outputs <= logits_->capacity(); ++last) {
      if (work_[last].n_outputs > 0 && plain(last) != by_statistics) break;
      rows += work_[last].n_outputs;
    }
    const int64_t begin = now_ns();
    const Tensor outputs = hidden.part(work_[first].first_output, rows);
    if (by_statistics) {
      model_.head_statistics(outputs, diffusion_.mask_id, statistics_.device());
    } else {
      model_.head(outputs, logits_->rows(rows));
    }
    const int64_t headed = now_ns();
    if (by_statistics) {
      const std::span<const RowStatistics> found = statistics_.download(rows);
      for (size_t i = first; i < last; ++i) {
        take_statistics(work_[i], found.data() + (work_[i].first_output - work_[first].first_output));
      }
    } else {
      choose(plan, slots, result, first, last, logits_->rows(rows));
    }
    times.verify_ns += headed - begin;
    times.sample_ns += now_ns() - headed;
    first = last;
  }
}

void BlockDecoder::take_statistics(const Work& work, const RowStatistics* row) {
  if (work.block == nullptr) return;
  Block& block = *work.block;
  for (Positions left = work.wanted; left != 0; left &= left - 1, ++row) {
    const int32_t i = lowest(left);
    block.statistics[i] = *row;
    block.candidates[i] = row->best;
    block.confidence[i] = row->p_best;
    if (!(row->p_best > 0)) block.no_numbers = true;
  }
}

// Candidates of spans [first, last), whose logits are there.
void BlockDecoder::choose(const StepPlan& plan, SlotTable& slots, StepResult& result, size_t first, size_t last,
                          Tensor logits) {
  requests_.clear();
  asked_.clear();
  for (size_t i = first; i < last; ++i) {
    if (work_[i].n_outputs == 0) continue;
    Slot& slot = slots[plan.spans[i].slot];
    const int32_t row = work_[i].first_output - work_[first].first_output;
    run_for_span(slot, result.spans[i], [&] { ask(i, slot, row); });
  }
  const auto choices = std::span(choices_).first(requests_.size());
  model_.ops().choose(logits, requests_, choices);
  size_t stopped = work_.size();  // a span in which a draft was wrong: what comes after it does not count
  for (size_t at = 0; at < asked_.size(); ++at) {
    const auto [span, i] = asked_[at];
    if (span == stopped) continue;
    Block& block = *work_[span].block;
    take_candidate(block, i, slots[plan.spans[span].slot], choices[at], requests_[at].allowed);
    if (work_[span].verifies && block.candidates[i] != block.drafts[i]) stopped = span;
  }
}

// Requests about the rows of a span, whose first row of logits is `row`.
void BlockDecoder::ask(size_t span, const Slot& slot, int32_t row) {
  const Work& work = work_[span];
  Block& block = *work.block;
  const CandidateOptions options = candidate_options(block);
  std::span<const uint32_t> allowed;
  Positions wanted = work.wanted;
  if (slot.constraint != nullptr) {
    const Masked masked = constrain(slot, vocab(), allowed_[span]);
    block.impossible = masked == Masked::kAll;
    if (block.impossible) return;
    if (masked == Masked::kSome) allowed = allowed_[span];
    wanted = block.masked & -block.masked;  // filled from left to right
  }
  const int32_t first = lowest(wanted);
  for (Positions left = work.wanted; left != 0; left &= left - 1, ++row) {
    const int32_t i = lowest(left);
    if (!has(wanted, i)) continue;
    std::span<const int32_t> after;
    if (work.verifies) after = std::span(block.drafts).subspan(first, i - first);  // drafts stand side by side
    requests_.push_back(candidate_request(block, i, slot, options, allowed, after));
    requests_.back().row = row;
    asked_.push_back({span, i});
  }
}

Decision BlockDecoder::decide(Block& block, const Slot& slot) const {
  BlockView view;
  view.n = block.n;
  view.vocab = vocab();
  view.pass = block.pass;
  view.masked = view.open = block.masked;
  if (slot.constraint != nullptr) {
    view.open = block.masked & -block.masked;
  } else if (diffusion_.sub_block > 0 && block.masked != 0) {
    const int32_t first = lowest(block.masked) / diffusion_.sub_block * diffusion_.sub_block;
    view.open &= first_positions(diffusion_.sub_block) << first;
  }
  view.unmasked = block.unmasked();
  view.ids = block.ids.data();
  view.candidates = block.candidates.data();
  view.confidence = block.confidence.data();
  view.statistics = block.statistics.data();
  if (slot.constraint != nullptr) return {.unmask = view.open};
  Decision decision = block.algorithm->decide(view, block.memory);
  decision.unmask &= view.open;
  if (decision.verify != 0) {
    ASHLAR_CHECK(block.algorithm->verifies() && (decision.verify & ~view.open) == 0 && decision.unmask == 0);
    return decision;
  }
  for (Positions left = decision.unmask; count(left) > slot.width;) {  // the request wants fewer at a time
    Positions kept = 0;
    for (int32_t i = 0; i < slot.width; ++i) kept |= Positions{1} << most_confident(view, left & ~kept);
    left = decision.unmask = kept;
  }
  ASHLAR_CHECK(decision.unmask != 0 || view.open == 0 || block.algorithm->edits());
  return decision;
}

}  // namespace ashlar
