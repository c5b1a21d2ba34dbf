// From the hidden states of a block's rows to what may stand at its positions, and which of it stays.

#include <algorithm>

#include "base/clock.h"
#include "decode/block/block_decoder.h"
#include "decode/span_error.h"

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
      const RowStatistics* const found = statistics_.host(rows);
      for (size_t i = first; i < last; ++i) {
        take_statistics(work_[i], found + (work_[i].first_output - work_[first].first_output));
      }
    } else {
      choose(plan, slots, result, first, last, logits_->host(rows));
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

// Candidates of spans [first, last), whose logits are in the buffer.
void BlockDecoder::choose(const StepPlan& plan, SlotTable& slots, StepResult& result, size_t first, size_t last,
                          float* logits) {
  struct Context {
    BlockDecoder* self;
    const StepPlan* plan;
    SlotTable* slots;
    StepResult* result;
    size_t first;
    float* logits;  // [rows, vocab]
  } context = {this, &plan, &slots, &result, first, logits};
  model_.ops().for_each(
      static_cast<int32_t>(last - first),
      [](void* pointer, int32_t i) {
        const auto& c = *static_cast<const Context*>(pointer);
        const size_t span = c.first + i;
        const Work& work = c.self->work_[span];
        if (work.n_outputs == 0) return;
        const int64_t row = work.first_output - c.self->work_[c.first].first_output;
        Slot& slot = (*c.slots)[c.plan->spans[span].slot];
        run_for_span(slot, c.result->spans[span],
                     [&] { c.self->choose_span(span, slot, c.logits + row * c.self->vocab()); });
      },
      &context);
}

void BlockDecoder::choose_span(size_t index, Slot& slot, float* logits) {
  const Work& work = work_[index];
  if (work.verifies) {
    verify_drafts(*work.block, slot, candidate_options(*work.block), logits, scratch_[index]);
    return;
  }
  const int32_t next = slot.constraint != nullptr ? lowest(work.block->masked) : -1;
  const CandidateOptions options = candidate_options(*work.block);
  for (Positions left = work.wanted; left != 0; left &= left - 1, logits += vocab()) {
    const int32_t position = lowest(left);
    if (slot.constraint != nullptr && position != next) continue;  // filled from left to right
    find_candidate(*work.block, position, position == next, slot, options, logits, scratch_[index]);
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
