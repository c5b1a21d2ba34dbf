// SPDX-License-Identifier: Apache-2.0
#include "decode/block/block_decoder.h"

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "decode/span_error.h"

namespace ashlar {
namespace {

constexpr int32_t kUsualWholeBlock = 32;    // positions filled before later ones by models without blocks
constexpr int32_t kUsualWholeAnswer = 128;  // tokens: such a model must know the answer's length

BlockDiffusion diffusion_of(const Model& model) {
  if (!model.config().diffusion) {
    throw Error("decode", model.config().folder.string() + ": is an autoregressive model (" + model.config().family +
                              "); block-diffusion decoding needs a model that fills masked blocks");
  }
  return *model.config().diffusion;
}

int32_t choose_block(const Model& model, const BlockOptions& options) {
  const BlockDiffusion diffusion = diffusion_of(model);
  int32_t block = diffusion.block_size > 0 ? diffusion.block_size : kUsualWholeBlock;
  if (options.block_size > 0) block = options.block_size;
  if (block > kMaxWidth) {
    throw Error("decode",
                "the block size is " + std::to_string(block) + "; expected 1 to " + std::to_string(kMaxWidth));
  }
  if (diffusion.block_size > 0 && model.max_positions() < block) {
    throw Error("decode", "the context is " + std::to_string(model.max_positions()) +
                              " tokens, less than one block of " + std::to_string(block) +
                              "; make it longer (--max-context) or blocks shorter (--dllm-block-size)");
  }
  return block;
}

bool is_stop(const Slot& slot, int32_t id) {
  return std::find(slot.stop_ids.begin(), slot.stop_ids.end(), id) != slot.stop_ids.end();
}

}  // namespace

BlockDecoder::BlockDecoder(Model& model, const BlockOptions& options)
    : model_(model),
      diffusion_(diffusion_of(model)),
      whole_(diffusion_.block_size == 0),
      block_(choose_block(model, options)),
      fuses_commit_pass_(options.fuses_commit_pass),
      algorithm_spec_{find_algorithm(options.algorithm.name).name, options.algorithm.values},
      algorithm_(make_fitting_algorithm(algorithm_spec_)) {}

std::unique_ptr<UnmaskAlgorithm> BlockDecoder::make_fitting_algorithm(const AlgorithmSpec& spec) const {
  auto algorithm = make_algorithm(spec, block_);
  if (whole_ && algorithm->verifies()) {
    throw Error("decode", "the denoising algorithm " + spec.name + " needs a model that attends block by block; " +
                              model_.config().family + " attends to the whole sequence");
  }
  return algorithm;
}

// Parameters of the algorithm that the decoder was started with keep their values where a request does not say.
AlgorithmSpec BlockDecoder::spec_for(const MethodChoice& choice) const {
  const bool same = choice.algorithm.empty() || find_algorithm(choice.algorithm).name == algorithm_spec_.name;
  AlgorithmSpec spec = same ? algorithm_spec_ : AlgorithmSpec{choice.algorithm, {}};
  for (const auto& [key, value] : choice.values) spec.values[key] = value;
  return spec;
}

std::string BlockDecoder::check(const MethodChoice& choice) const {
  if (choice.empty()) return "";
  try {
    make_fitting_algorithm(spec_for(choice));
  } catch (const Error& error) {
    return std::string(error.message());
  }
  return "";
}

CandidateOptions BlockDecoder::candidate_options(const Block& block) const {
  return {vocab(), diffusion_.mask_id, block.algorithm->repeat_penalty()};
}

StepShape BlockDecoder::shape(int32_t) const {
  StepShape shape;
  shape.prefill_samples = false;
  shape.tokens = block_;
  shape.min_new_tokens = 0;
  if (whole_) {
    shape.whole_sequence = true;
    shape.rows = max_positions();
    shape.answer = kUsualWholeAnswer;
  } else {
    shape.block = block_;
    shape.rows = 2 * block_;
    shape.lookahead = block_;
    shape.joins_prefill = diffusion_.token_shift == 0;  // else the block begins with what the prompt's last row says
  }
  return shape;
}

void BlockDecoder::start(const StepLimits& limits, const KvMemory& kv) {
  kv_ = &kv;
  model_.reserve(limits.max_rows);
  batch_ = std::make_unique<RowBatch>(model_.ops(), limits.max_rows, 2 * limits.max_spans);
  pages_ = std::make_unique<PageTables>(model_.ops(), limits.max_slots, (max_positions() + block_) / kPageTokens + 1);
  logits_ = std::make_unique<LogitsBuffer>(model_.ops(), kLogitRows, vocab());
  blocks_.resize(limits.max_slots);
  work_.reserve(limits.max_spans);
  statistics_ = {model_.ops(), kLogitRows};
  const size_t words = (static_cast<size_t>(vocab()) + 31) / 32;
  allowed_.resize(limits.max_spans);
  for (std::vector<uint32_t>& allowed : allowed_) allowed.reserve(words);
  requests_.reserve(kLogitRows);
  asked_.reserve(kLogitRows);
  choices_.resize(kLogitRows);
}

// A block that was interrupted begins again, and fills up in the same order as before: its tokens that the sequence has
// already are found anew, not repeated. Under a constraint, which cannot go back, they stay where they are; there the
// order is from left to right, so that nothing else is lost.
void BlockDecoder::admit(int32_t slot, Slot& state, std::span<const int32_t> tokens) {
  pages_->admit(slot);
  Block& block = blocks_[slot];
  const auto known = static_cast<int32_t>(tokens.size());
  const int32_t from = whole_ ? state.prompt_length : 0;
  const int32_t start = from + (known - from) / block_ * block_;
  block.own_algorithm = state.choice.empty() ? nullptr : make_fitting_algorithm(spec_for(state.choice));
  block.algorithm = block.own_algorithm ? block.own_algorithm.get() : algorithm_.get();
  block.open(start, whole_ ? std::min(block_, state.limit - start) : block_, diffusion_.mask_id);
  block.emitted = known;
  const int32_t given_end = state.constraint != nullptr ? known : std::min(known, state.prompt_length);
  for (int32_t p = start; p < given_end; ++p) block.give(p - start, tokens[p]);
  if (given_end > state.prompt_length) block.pass = state.pass;
  if (state.params.has_penalties()) {
    for (int32_t p = std::max(start, given_end); p < known; ++p) state.counts.remove_answer(tokens[p]);
  }
  block.uncommitted = false;
  if (whole_) {
    block.tokens.reserve(state.limit);
    block.tokens.assign(tokens.begin(), tokens.begin() + start);
  } else if (start > 0) {
    std::copy_n(tokens.begin() + (start - block_), block_, block.before.begin());
    // The token at the block's first position comes from the row before it, which is computed once more.
    block.uncommitted = diffusion_.token_shift > 0 && has(block.masked, 0);
  }
  if (state.params.wants_logprobs()) {
    block.logprobs.resize(block_);
    block.unmasked_logprobs.resize(block_);
  }
}

void BlockDecoder::enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) {
  const int64_t begin = now_ns();
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    SpanResult& span = result.spans[i];
    span.n_tokens = span.n_decided = span.n_drafted = span.n_accepted = span.n_ngram_accepted = 0;
    span.computed = slots[plan.spans[i].slot].length;
    span.end = SpanEnd::kRunning;
    span.active = span.cut = false;
  }
  fill_batch(plan, slots, result);
  result.times = {};
  if (batch_->n() == 0) return;
  const Tensor hidden = model_.forward(*batch_, *kv_, {});
  const int64_t forwarded = now_ns();
  result.times.verify_ns = forwarded - begin;
  find_candidates(plan, slots, hidden, result);
  const int64_t found = now_ns();
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const Span& span = plan.spans[i];
    Slot& slot = slots[span.slot];
    if (work_[i].block != nullptr) {
      if (result.spans[i].end == SpanEnd::kFailed) continue;
      run_for_span(slot, result.spans[i], [&] {
        unmask(work_[i], slot, result.spans[i]);
        emit(*work_[i].block, slot, result.spans[i], &result.logprob(i, 0));
        finish(work_[i], slot);
        if (slot.constraint != nullptr && !slot.done) slot.constraint->prepare();  // for the next step
      });
      result.spans[i].pass = work_[i].block->pass;
    } else if (work_[i].n_rows > 0) {
      slot.length = span.start + span.n_rows;
    }
    result.spans[i].computed = slot.length;
  }
  result.times.sample_ns += now_ns() - found;
}

void BlockDecoder::fill_batch(const StepPlan& plan, SlotTable& slots, StepResult& result) {
  batch_->clear();
  work_.clear();
  for (const Span& span : plan.spans) {
    SpanResult& outcome = result.spans[work_.size()];
    Work& work = work_.emplace_back();
    pages_->update(span.slot, span.pages, span.n_pages);
    const int32_t before = batch_->n();
    work.first_output = batch_->n_outputs();
    Slot& slot = slots[span.slot];
    if (slot.done) {
      // Nothing to do.
    } else if (span.prompt != nullptr) {
      add_prefill(span);
    } else if (Block& block = blocks_[span.slot];
               slot.constraint == nullptr || may_pass(block, slot, outcome, &result.logprob(work_.size() - 1, 0))) {
      work.block = &block;
      if (block.verify != 0) {
        add_verification(span, work);
      } else {
        add_block(span, slot, work);
      }
    }
    work.n_rows = batch_->n() - before;
    outcome.active = outcome.active || work.n_rows > 0;
    work.n_outputs = batch_->n_outputs() - work.first_output;
    ASHLAR_CHECK_EQ(work.n_outputs, count(work.wanted));  // or a span would read another one's rows
  }
}

void BlockDecoder::add_prefill(const Span& span) {
  batch_->begin_sequence(pages_->of(span.slot));
  for (int32_t r = 0; r < span.n_rows; ++r) {
    const int32_t position = span.start + r;
    batch_->add_row(span.prompt[r], position, position / block_ * block_ + block_);
  }
}

void BlockDecoder::add_block(const Span& span, const Slot& slot, Work& work) {
  Block& block = *work.block;
  work.commits = block.uncommitted;
  // Where a row predicts the token after it, the KV commit pass yields the block's first token, which the first pass
  // over the block needs.
  const bool commit_pass_yields = work.commits && diffusion_.token_shift > 0 && has(block.masked, 0);
  work.denoises = !work.commits || (fuses_commit_pass_ && !commit_pass_yields);
  if (work.denoises) {
    work.wanted = block.algorithm->edits() ? block.positions() & ~block.given : block.masked;
    // What the KV commit pass yielded stays: the row before the block is in no other pass.
    if (diffusion_.token_shift > 0 && !whole_) work.wanted &= ~first_positions(1);
  } else if (commit_pass_yields) {
    work.wanted = 1;
  }
  const auto add = [&](int32_t id, int32_t position, int32_t end) {
    batch_->add_row(id, position, end);
    const int32_t of = position + diffusion_.token_shift - block.start;
    if (of >= 0 && of < block.n && has(work.wanted, of)) batch_->want_output();
  };
  batch_->begin_sequence(pages_->of(span.slot));
  if (whole_) {
    for (int32_t p = 0; p < block.start; ++p) add(block.tokens[p], p, slot.limit);
    for (int32_t i = 0; i < block.n; ++i) add(block.ids[i], block.start + i, slot.limit);
    for (int32_t p = block.end(); p < slot.limit; ++p) add(diffusion_.mask_id, p, slot.limit);
    return;
  }
  for (int32_t i = 0; work.commits && i < block.n; ++i) add(block.before[i], block.start - block.n + i, block.start);
  for (int32_t i = 0; work.denoises && i < block.n; ++i) add(block.ids[i], block.start + i, block.end());
}

// The block with all drafts in place, each row seeing what is before it, as if blocks had one position. Where a row
// predicts its own position, what would stand at position i is asked by a mask without KV after the drafts
// before i; where it predicts the next one, by the row before.
void BlockDecoder::add_verification(const Span& span, Work& work) {
  const Block& block = *work.block;
  ASHLAR_CHECK(!block.uncommitted);
  work.verifies = true;
  work.wanted = block.verify;
  const int32_t last = std::bit_width(block.verify) - 1;
  const int32_t shift = diffusion_.token_shift;
  batch_->begin_sequence(pages_->of(span.slot));
  for (int32_t i = 0; i < last; ++i) {
    const int32_t position = block.start + i;
    batch_->add_row(has(block.verify, i) ? block.drafts[i] : block.ids[i], position, position + 1);
    if (shift > 0 && has(work.wanted, i + shift)) batch_->want_output();
  }
  if (shift > 0) return;
  batch_->begin_sequence(pages_->of(span.slot));
  for (Positions left = work.wanted; left != 0; left &= left - 1) {
    batch_->add_without_kv(diffusion_.mask_id, block.start + lowest(left));
    batch_->want_output();
  }
}

void BlockDecoder::unmask(Work& work, Slot& slot, SpanResult& result) {
  Block& block = *work.block;
  if (work.commits) {
    block.uncommitted = false;
    slot.length = block.start;
  }
  Decision decision;
  if (work.wanted != 0) {
    if (block.impossible || block.no_numbers) {
      result.end = block.no_numbers ? SpanEnd::kNoNumbers : SpanEnd::kError;
      slot.done = true;
      return;
    }
    if (work.verifies) {
      decision.unmask = block.verified(slot.width);
    } else {
      decision = work.denoises ? decide(block, slot) : Decision{.unmask = work.wanted};
      block.draft(decision.verify);
    }
    for (Positions left = decision.unmask | decision.edit; left != 0; left &= left - 1) {
      const int32_t i = lowest(left);
      block.unmask(i, block.candidates[i], slot.params, slot.counts);
      if (slot.constraint != nullptr) slot.constraint->advance(block.ids[i]);
    }
    result.n_decided = count(decision.unmask);
    ++block.pass;
  }
  block.finished = block.algorithm->edits() && slot.constraint == nullptr ? decision.finished && block.masked == 0
                                                                          : block.masked == 0;
  // What the pass saw is what stays: its K and V are final, and no KV commit pass is needed, unless to yield the next
  // token.
  work.saw_final =
      work.denoises && block.finished && (decision.unmask | decision.edit) == 0 && diffusion_.token_shift == 0;
}

// Fills what the constraint leaves no choice about, without asking the model. The end of the answer is left to the
// pass: after it nothing is allowed. False: a mask is still being found, without which the block has no pass.
bool BlockDecoder::force(Block& block, Slot& slot) {
  if (block.masked != 0 && !slot.constraint->prepare()) return false;
  if (slot.params.wants_logprobs()) return true;  // which only the model can give
  std::vector<uint32_t>& allowed = allowed_.front();
  allowed.resize((static_cast<size_t>(vocab()) + 31) / 32);
  while (block.masked != 0 && slot.constraint->mask(allowed)) {
    if (vocab() % 32 != 0) allowed.back() &= (1U << (vocab() % 32)) - 1;
    int32_t choices = 0;
    int32_t id = 0;
    for (size_t word = 0; word < allowed.size() && choices < 2; ++word) {
      if (allowed[word] == 0) continue;
      choices += std::popcount(allowed[word]);
      id = static_cast<int32_t>(word) * 32 + std::countr_zero(allowed[word]);
    }
    if (choices != 1 || id == diffusion_.mask_id || is_stop(slot, id)) return true;
    block.unmask(lowest(block.masked), id, slot.params, slot.counts);
    slot.constraint->advance(id);
    if (block.masked != 0 && !slot.constraint->prepare()) return false;
  }
  return true;
}

// Under a constraint: false where the next mask is still being found, or the sequence has just failed. What was filled
// before the mask was missing is reported at once: the constraint has heard of it, so that a sequence that gives way
// now has to know it.
bool BlockDecoder::may_pass(Block& block, Slot& slot, SpanResult& result, TokenLogprobs* logprobs) {
  bool may = false;
  return run_for_span(slot, result,
                      [&] {
                        may = force(block, slot);
                        if (may) return;
                        result.cut = true;
                        emit(block, slot, result, logprobs);
                        result.active = result.n_tokens > 0;
                        result.pass = block.pass;
                      }) &&
         may;
}

// The tokens that nothing can change any more, up to the first masked position.
void BlockDecoder::emit(Block& block, Slot& slot, SpanResult& result, TokenLogprobs* logprobs) const {
  if (slot.done) return;
  int32_t until = block.start + std::min(lowest(block.masked), block.n);
  if (block.algorithm->edits() && slot.constraint == nullptr && !block.finished) until = block.start;
  result.at = block.emitted - block.start;
  for (int32_t p = block.emitted; p < until && !slot.done; ++p) {
    const int32_t i = p - block.start;
    if (slot.params.wants_logprobs()) logprobs[result.n_tokens] = block.unmasked_logprobs[i];
    result.unmask_pass[result.n_tokens] = block.unmask_pass[i];
    result.tokens[result.n_tokens++] = block.ids[i];
    block.emitted = p + 1;
    if (is_stop(slot, block.ids[i])) {
      result.end = SpanEnd::kStop;
    } else if (p + 1 >= slot.limit) {
      result.end = SpanEnd::kLength;
    }
    slot.done = result.end != SpanEnd::kRunning;
  }
}

void BlockDecoder::finish(const Work& work, Slot& slot) {
  Block& block = *work.block;
  if (slot.done || !block.finished) return;
  if (whole_) {
    block.tokens.insert(block.tokens.end(), block.ids.begin(), block.ids.begin() + block.n);
    block.open(block.end(), std::min(block_, slot.limit - block.end()), diffusion_.mask_id);
    return;
  }
  block.uncommitted = !work.saw_final;
  if (work.saw_final) slot.length = block.end();
  block.before = block.ids;
  block.open(block.end(), block_, diffusion_.mask_id);
}

}  // namespace ashlar
