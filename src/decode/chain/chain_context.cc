// SPDX-License-Identifier: Apache-2.0
// Hidden states of a step's rows: those that drafters read, and those that requests asked for.

#include <algorithm>

#include "decode/chain/chain.h"

namespace ashlar {

bool ChainDecoder::report_hidden(std::span<const int32_t> layers) {
  hidden_ = std::make_unique<PromptHidden>(layers, model_.config().stack.hidden);
  return true;
}

HiddenRow ChainDecoder::hidden_row() const {
  return hidden_ ? hidden_->row(model_.ops().activation_type()) : HiddenRow{};
}

// Where a request asked for hidden states, the drafter's stand next to them and are copied to where it reads them.
Tensor ChainDecoder::forward(const StepPlan& plan) {
  const bool takes_aux = proposer_ && wants_aux_hidden(plan);
  const bool reports = hidden_ && std::any_of(plan.spans.begin(), plan.spans.end(),
                                              [](const Span& span) { return span.hidden_to > span.hidden_from; });
  if (!reports) return model_.forward(*batch_, *kv_, takes_aux ? aux_request() : AuxHiddenRequest{});
  const Tensor hidden = model_.forward(*batch_, *kv_, hidden_->request());
  if (takes_aux) {
    model_.ops().copy(hidden_->of_drafter().narrow(batch_->n()), context_->aux_hidden().narrow(batch_->n()));
  }
  return hidden;
}

void ChainDecoder::report_hidden(const StepPlan& plan, StepResult& result) {
  for (size_t i = 0; i < work_.size() && hidden_; ++i) {
    const Span& span = plan.spans[i];
    const int32_t n = span.hidden_to - span.hidden_from;
    if (n <= 0 || work_[i].idle) continue;
    result.spans[i].n_hidden = n;
    result.spans[i].first_hidden = hidden_->take(model_.ops(), work_[i].first_row + span.hidden_from, n);
  }
  if (hidden_) hidden_->download(model_.ops(), result.hidden);
}

// Sequences that are about to draft need the whole of their context, or know where it begins.
void ChainDecoder::write_backlogs() {
  for (ChainSpan& chain : chains_) {
    if (!chain.proposes) continue;
    if (!context_->can_draft(chain.slot, chain.start)) {
      chain.proposes = false;
      chain.width = chain.most = 1;
      continue;
    }
    context_->write_backlog(chain.slot, chain.pages);
    chain.context_begin = context_->begin(chain.pages, chain.start);
    // From here on the proposer's.
    chain.pages = context_->table(chain.slot, chain.pages, chain.context_begin,
                                  chain.start + std::max(chain.width, chain.draft_rows));
  }
  context_->flush();
}

// Whether the drafter's context takes in what the span commits in this step, whatever is hoped of drafts.
bool ChainDecoder::writes_context(const Work& work) const {
  if (work.idle) return false;
  return work.chain < 0 || chains_[work.chain].proposes || work.forced > 0;
}

bool ChainDecoder::wants_aux_hidden(const StepPlan& plan) const {
  return plan.keeps_context ||
         std::any_of(work_.begin(), work_.end(), [this](const Work& work) { return writes_context(work); });
}

void ChainDecoder::write_context(const StepPlan& plan) {
  for (size_t i = 0; i < work_.size(); ++i) {
    const Work& work = work_[i];
    if (work.committed == 0) continue;
    const Span& span = plan.spans[i];
    const int32_t position = batch_->position(work.first_row);
    const bool fills_page = position % kPageTokens + work.committed >= kPageTokens;
    const int32_t* ids = work.chain >= 0 ? chains_[work.chain].ids : span.prompt;
    if (writes_context(work) || (fills_page && plan.keeps_context)) {
      context_->write_backlog(span.slot, span.pages);  // of a span that was widened after the drafting
      context_->write(span.slot, span.pages, work.first_row, position, work.committed,
                      work.chain >= 0 ? work.path : nullptr, ids);
    } else if (plan.keeps_context) {
      for (int32_t t = 0; t < work.committed; ++t) {
        context_->keep(span.slot, span.pages, work.first_row + t, position + t, ids[t]);
      }
    } else {
      context_->skip(span.slot, span.pages, position, work.committed);
    }
  }
  context_->flush();
}

}  // namespace ashlar
