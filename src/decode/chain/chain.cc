// SPDX-License-Identifier: Apache-2.0
#include "decode/chain/chain.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "decode/propose/draft_tree.h"
#include "decode/span_error.h"

namespace ashlar {

namespace {

// States that a prompt's span leaves to choose from: that after its last row, and that before it, should the row's
// mask be missing.
constexpr int32_t kPromptChoices = 2;

}  // namespace

ChainDecoder::ChainDecoder(Model& model, std::unique_ptr<Proposer> proposer, NgramUse ngrams)
    : model_(model), proposer_(std::move(proposer)), ngram_use_(ngrams), max_width_(proposer_->max_width()) {
  if (ngrams == NgramUse::kWherePaying && !proposer_->adapts_width()) ngram_use_ = NgramUse::kNever;
}

ChainDecoder::ChainDecoder(Model& model, NgramUse ngrams, int32_t width)
    : model_(model), ngram_use_(ngrams), max_width_(ngrams == NgramUse::kNever ? 1 : width) {}

int32_t ChainDecoder::log_rows(int32_t width) { return std::max(width, kPromptChoices); }

std::string ChainDecoder::name() const {
  if (proposer_) return proposer_->name();
  return drafts() ? "ngram" : "autoregressive";
}

void ChainDecoder::register_state(KvLayout& layout, const StepLimits& limits) {
  layout.add_spare_pages(spare_pages(limits.max_slots));
  layout.keep_log(log_rows(max_width()));
  model_.register_state(layout);
  layout.add_spare_pages(0);
  if (!proposer_) return;
  layout.limit_pages(DraftContext::window_pages(proposer_->window(), max_width(), limits.max_slots));
  layout.add_spare_pages(max_branches() > 0 ? proposer_->spare_pages(limits.max_slots) : 0);
  proposer_->register_state(layout);
  layout.add_spare_pages(0);
  layout.limit_pages(0);
  const int64_t end = DraftContext::page_end_bytes(model_.ops(), proposer_->reads_before(), proposer_->aux_width());
  if (end > 0) page_ends_ = layout.add_paged("drafter.page_ends", end);
}

int32_t ChainDecoder::spare_pages(int32_t max_slots) const {
  return branch_pages(max_branches(), max_width(), max_slots);
}

void ChainDecoder::start(const StepLimits& limits, const KvMemory& kv) {
  Ops& ops = model_.ops();
  kv_ = &kv;
  model_.reserve(limits.max_rows);
  scratch_slots_ = spare_pages(limits.max_slots) * kScratchSlotsPerPage;
  const int32_t branches = max_branches() * limits.max_spans;
  batch_ = std::make_unique<RowBatch>(ops, limits.max_rows, limits.max_spans, branches);
  logits_ = std::make_unique<LogitsBuffer>(ops, kLogitRows, vocab());
  choices_ = {ops, kChoiceRows};
  commit_slots_ = {ops, kMaxWidth};
  pages_ = std::make_unique<PageTables>(ops, limits.max_slots, max_positions() / kPageTokens + 1 + pages_of_block());
  chains_.reserve(limits.max_spans);
  rows_.reserve(limits.max_spans);
  chances_.reserve(static_cast<size_t>(limits.max_spans) * kMaxWidth);
  work_.reserve(limits.max_spans);
  walks_.resize(limits.max_spans);
  for (SpanWalk& walk : walks_) walk.reserve(vocab());
  verifier_.reserve(kLogitRows, limits.max_spans);
  scorer_.reserve(kLogitRows);
  if (hidden_) {
    hidden_->start(ops, limits.max_rows, proposer_ ? proposer_->aux_layers() : std::span<const AuxLayer>(),
                   proposer_ ? proposer_->aux_width() : 0);
  }
  if (!drafts()) return;
  if (proposer_) {
    context_ = std::make_unique<DraftContext>(ops, *proposer_, *pages_, limits, kv.pages(),
                                              page_ends_ >= 0 ? kv.plane(page_ends_) : KvPlane{});
    proposer_->start(limits, kv);
    if (proposer_->reads_newest()) proposer_->set_newest(context_->newest());
  }
  selector_.reserve(limits.max_spans * kMaxWidth);
  keys_seen_ = target_keys();
  const auto rows = !proposer_                        ? ProposerRows::kNone
                    : proposer_->fills_whole_blocks() ? ProposerRows::kAll
                                                      : ProposerRows::kAsWanted;
  planner_ = std::make_unique<DraftPlanner>(max_width(), limits.max_slots, limits.max_spans, rows, ngram_use_,
                                            keys_seen_, proposer_ ? proposer_->keys_seen() : KeysSeen());
  if (adapts_width()) calibrate(limits.max_slots);
}

AuxHiddenRequest ChainDecoder::aux_request() const {
  if (!proposer_) return {};
  return {proposer_->aux_layers(), context_->aux_hidden()};
}

StepShape ChainDecoder::shape(int32_t width) const {
  StepShape shape;
  shape.rows = shape.tokens = width > 0 ? std::min(width, max_width()) : max_width();
  shape.min_rows = 1;
  shape.lookahead = shape.rows - 1;
  return shape;
}

void ChainDecoder::admit(int32_t slot, Slot& state, std::span<const int32_t> tokens) {
  pages_->admit(slot);
  if (!drafts()) return;
  planner_->admit(slot, state, tokens);
  if (!proposer_) return;
  proposer_->admit(slot, state, tokens);
  context_->admit(slot);
}

void ChainDecoder::enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) {
  const int64_t begin = now_ns();
  begin_step(plan, slots, result);
  if (proposer_) {
    context_->begin_step();
    share_branches();
    write_backlogs();
    proposer_->propose(chains_, slots);
    trim_trees(plan.budget);
  }
  if (drafts()) force_drafts(plan, slots, result);
  const int64_t drafted = now_ns();
  fill_batch(plan, slots);
  report(result);
  result.times = {};
  result.times.draft_ns = drafted - begin;
  if (batch_->n() == 0) return;
  const Tensor hidden = forward(plan);
  const int64_t forwarded = now_ns();
  result.times.verify_ns = forwarded - drafted;
  score(plan, slots, hidden, result);
  sample(plan, slots, hidden, result);
  const int64_t sampled = now_ns();
  result.times.sample_ns =
      sampled - forwarded - result.times.sample_ns;  // less the head, which sample() books under verify
  report_hidden(plan, result);
  if (!proposer_) return;
  commit_branches(plan);
  write_context(plan);
  result.times.context_ns = now_ns() - sampled;
}

void ChainDecoder::begin_step(const StepPlan& plan, SlotTable& slots, StepResult& result) {
  chains_.clear();
  work_.clear();
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const Span& span = plan.spans[i];
    pages_->update(span.slot, span.pages, span.n_pages);
    Slot& slot = slots[span.slot];
    SpanResult& outcome = result.spans[i];
    outcome.n_tokens = outcome.n_decided = outcome.n_drafted = outcome.n_accepted = outcome.n_ngram_accepted = 0;
    outcome.n_scored = outcome.n_hidden = 0;
    outcome.unmask_pass[0] = -1;
    outcome.computed = slot.length;
    outcome.end = SpanEnd::kRunning;
    outcome.active = outcome.cut = false;

    Work work;
    bool waits = false;
    if (!slot.done && slot.constraint != nullptr) {
      run_for_span(slot, outcome, [&] { waits = !slot.constraint->prepare(); });
    }
    work.idle = slot.done || (waits && span.prompt == nullptr);
    if (!work.idle && span.prompt == nullptr) {
      work.chain = static_cast<int32_t>(chains_.size());
      chains_.push_back(make_chain(span, slot));
    }
    work_.push_back(work);
  }
}

// A row yields the token after it; the last token of a sequence is never a row.
ChainSpan ChainDecoder::make_chain(const Span& span, const Slot& slot) {
  const int32_t most = std::min({span.n_rows, slot.width, slot.limit - slot.length - 1});
  ChainSpan chain;
  chain.slot = span.slot;
  chain.start = slot.length;
  chain.width = std::min(span.drafts.width, most);
  chain.most = std::min(span.drafts.most, most);
  chain.draft_rows = std::min(span.drafts.draft_rows, most);
  chain.proposes = span.drafts.proposes && chain.width > 1;
  chain.pages = span.pages;
  std::copy_n(span.drafts.ids, chain.width, chain.ids);
  chain.ids[0] = slot.last_token;
  chain.make_chain();
  return chain;
}

// What the planner may want to know of the spans, before their rows are decided.
void ChainDecoder::report(StepResult& result) const {
  for (size_t i = 0; i < work_.size(); ++i) {
    const Work& work = work_[i];
    SpanResult& span = result.spans[i];
    span.active = span.active || work.n_rows > 0;
    span.n_rows = work.n_rows;
    span.n_forced = work.forced;
    span.n_drafted = span.n_draft_rows = span.n_chances = 0;
    if (work.chain < 0) continue;
    const ChainSpan& chain = chains_[work.chain];
    span.n_drafted = chain.width - 1;
    if (!chain.proposes) continue;
    span.n_draft_rows = std::max(chain.draft_rows, work.n_rows);
    span.n_chances = chain.n_chances;
    std::copy_n(chain.chances + 1, chain.n_chances, span.chances);
    span.expected = chain.expected();
  }
}

// Now that the proposer has said what it thinks of its drafts.
void ChainDecoder::trim_trees(const RowBudget& budget) {
  rows_.clear();
  chances_.clear();
  for (const ChainSpan& chain : chains_) {
    const size_t first = chances_.size();
    for (int32_t k = 1; k <= chain.n_chances; ++k) {
      if (chain.order[k] > 0) chances_.push_back(chain.chances[k]);
    }
    rows_.push_back({chain.width, {chances_.data() + first, chances_.size() - first}, keys_seen_.of(chain.start)});
  }
  selector_.select(budget, rows_);
  for (size_t i = 0; i < chains_.size(); ++i) {
    if (chains_[i].n_chances > 0) chains_[i].keep_likeliest(rows_[i].width);
  }
}

// Where more sequences draft than there is room for rows in branches, the first ones get some.
void ChainDecoder::share_branches() {
  int32_t room = scratch_slots_;
  for (ChainSpan& chain : chains_) {
    if (!chain.proposes || chain.most < 3 || room < chain.most) continue;
    chain.branches = max_branches();
    room -= chain.most;
  }
}

// Where a constraint knows what comes next, that is a better draft than any, and a run of it is worth a wider span than
// the policy chose.
void ChainDecoder::force_drafts(const StepPlan& plan, SlotTable& slots, StepResult& result) {
  for (size_t i = 0; i < work_.size(); ++i) {
    if (work_[i].chain < 0) continue;
    ChainSpan& chain = chains_[work_[i].chain];
    Slot& slot = slots[chain.slot];
    if (slot.constraint == nullptr) continue;
    const int32_t most = std::min({plan.spans[i].n_rows, slot.width, slot.limit - slot.length - 1}) - 1;
    if (most <= 0) continue;
    int32_t forced[kMaxWidth];
    if (!run_for_span(slot, result.spans[i],
                      [&] { work_[i].forced = slot.constraint->forced(std::span(forced, most)); })) {
      work_[i].chain = -1;
      work_[i].idle = true;
      continue;
    }
    std::copy_n(forced, work_[i].forced, chain.ids + 1);
    chain.make_chain();
    chain.width = std::max(chain.width, work_[i].forced + 1);
  }
}

void ChainDecoder::fill_batch(const StepPlan& plan, SlotTable& slots) {
  batch_->clear();
  free_scratch_slot_ = kv_->pages() * kScratchSlotsPerPage;
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const Span& span = plan.spans[i];
    Work& work = work_[i];
    work.first_row = batch_->n();
    work.first_output = batch_->n_outputs();
    if (work.chain >= 0) {
      work.state = {span.slot, slots[span.slot].replays, chains_[work.chain].width, {}};
      add_tree(span, work);
    } else if (!work.idle) {
      work.n_rows = work.committed = span.n_rows;
      work.n_outputs = span.samples ? 1 : 0;
      const bool begins = span.start == 0 || span.restores >= 0;
      work.state = {span.slot, begins ? 0 : slots[span.slot].replays, kPromptChoices, {span.saves[0], span.saves[1]}};
      if (span.restores >= 0) kv_->restore(span.restores, span.slot);
      batch_->begin_sequence(pages_->of(span.slot), 0, work.state);
      work.first_scored = work.first_output;
      work.n_scored = span.score_to - span.score_from;
      work.first_output += work.n_scored;
      for (int32_t r = 0; r < span.n_rows; ++r) {
        batch_->add_row(span.prompt[r], span.start + r, span.start + span.n_rows);
        if (r >= span.score_from && r < span.score_to) batch_->want_output();
      }
      if (span.samples) batch_->want_output();
    }
  }
}

// The first branch is a chain like any other. The rows of others stand at positions that it has too, so their K and V
// go to scratch slots, and a branch looks at those of its own path.
void ChainDecoder::add_tree(const Span& span, Work& work) {
  const ChainSpan& chain = chains_[work.chain];
  work.n_rows = work.n_outputs = chain.width;
  int32_t depth[kMaxWidth] = {};
  int32_t slot[kMaxWidth];
  batch_->begin_sequence(pages_->of(span.slot), 0, work.state);
  for (int32_t r = 0; r < chain.width; ++r) {
    const int32_t parent = chain.parents[r];
    depth[r] = r > 0 ? depth[parent] + 1 : 0;
    if (r > 0 && parent != r - 1) {
      work.has_branches = true;
      begin_branch(chain, parent, depth, slot);
    }
    const int32_t position = chain.start + depth[r];
    if (work.has_branches) {
      slot[r] = free_scratch_slot_++;
      batch_->add_branch_slot(slot[r]);
      batch_->add_in_scratch_slot(chain.ids[r], position, slot[r]);
    } else {
      slot[r] = -1;
      batch_->add_row(chain.ids[r], position, position + 1);
    }
    batch_->want_output();
  }
}

// After row `parent`, whose path leaves the first branch where the first scratch slot is.
void ChainDecoder::begin_branch(const ChainSpan& chain, int32_t parent, const int32_t* depth, const int32_t* slot) {
  int32_t path[kMaxWidth];
  int32_t n = 0;
  for (int32_t r = parent; r > 0 && slot[r] >= 0; r = chain.parents[r]) path[n++] = slot[r];
  batch_->begin_branch(chain.start + depth[parent] + 1 - n);
  while (n > 0) batch_->add_branch_slot(path[--n]);
}

// What was right in a branch becomes the sequence's own.
void ChainDecoder::commit_branches(const StepPlan& plan) {
  for (size_t i = 0; i < work_.size(); ++i) {
    const Work& work = work_[i];
    if (!work.has_branches) continue;
    int32_t scratch_slots[kMaxWidth];
    BranchTable branch = {0, 0, commit_slots_.device()};
    for (int32_t t = 0; t < work.committed; ++t) {
      const int32_t row = work.first_row + work.path[t];
      if (batch_->scratch_slot(row) < 0) continue;
      if (branch.n == 0) branch.first = batch_->position(row);
      scratch_slots[branch.n++] = batch_->scratch_slot(row);
    }
    if (branch.n == 0) continue;
    commit_slots_.upload({scratch_slots, static_cast<size_t>(branch.n)});
    model_.commit(*kv_, branch, pages_->of(plan.spans[i].slot));
  }
}

}  // namespace ashlar
