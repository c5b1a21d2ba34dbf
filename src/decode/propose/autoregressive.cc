// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/autoregressive.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ashlar {

AutoregressiveProposer::AutoregressiveProposer(std::string name, std::unique_ptr<DraftHead> head, Ops& ops,
                                               const AutoregressiveOptions& options)
    : name_(std::move(name)), head_(std::move(head)), ops_(ops), options_(options) {
  const auto fail = [this](const std::string& what) { throw Error("drafter", name_ + ": " + what); };
  if (options.width != 0 && (options.width < 2 || options.width > AutoregressiveOptions::kMaxWidth)) {
    fail("width " + std::to_string(options.width) + " asked for; a head that drafts token by token offers 2 to " +
         std::to_string(AutoregressiveOptions::kMaxWidth));
  }
  if (options.branches < 0 || options.branches >= AutoregressiveOptions::kMaxWidth) {
    fail(std::to_string(options.branches) + " branches asked for; expected 0 to " +
         std::to_string(AutoregressiveOptions::kMaxWidth - 1));
  }
  if (options.window != 0 && options.window < options.max_width()) {
    fail("draft window " + std::to_string(options.window) + " asked for; expected at least the width, " +
         std::to_string(options.max_width()) + ", or 0 for none");
  }
}

void AutoregressiveProposer::start(const StepLimits& limits, const KvMemory& kv) {
  kv_ = &kv;
  const int32_t slots = limits.max_slots;
  start_trees(limits, kv);
  // As many trees as there are scratch slots for, in the shortest passes that a tree may take.
  const int32_t trees = static_cast<int32_t>(trees_.size());
  const int32_t rows = is_masked() ? slots * (max_width() - 1) : slots + trees * options_.branches;
  const int32_t known = is_masked() ? slots + 1 : 0;
  head_->reserve(std::max(limits.max_rows, rows));
  batch_ = std::make_unique<RowBatch>(ops_, rows, slots, trees > 0 ? rows : 0);
  logits_ = std::make_unique<LogitsBuffer>(ops_, kLogitRows, head_->draft_vocab());
  entries_ = {ops_, kLogitRows};
  wanted_ = {ops_, rows};
  const DType type = ops_.activation_type();
  const int32_t aux = head_->aux_width();
  const int32_t feature = head_->feature_width();
  const size_t size = bytes_of(type);
  const size_t aux_bytes = size * static_cast<size_t>(slots) * static_cast<size_t>(aux);
  const size_t feature_bytes = size * static_cast<size_t>(rows) * static_cast<size_t>(feature);
  storage_ =
      ops_.allocate(aux_bytes + feature_bytes + size * static_cast<size_t>(known) * static_cast<size_t>(feature));
  aux_ = {storage_->data(), slots, aux, aux, type};
  features_ = {storage_->data() + aux_bytes, rows, feature, feature, type};
  known_features_ = {storage_->data() + aux_bytes + feature_bytes, known, feature, feature, type};
  if (is_masked()) ops_.copy(head_->mask_feature(), known_features_.part(slots, 1));
  likeliest_.resize(static_cast<size_t>(is_masked() ? rows : 0));
  blocks_.reserve(slots);
  drafting_.reserve(slots);
  rows_.reserve(rows);
  requests_.reserve(kLogitRows);
  choices_.resize(kLogitRows);
  distributions_.reserve(slots);
}

void AutoregressiveProposer::admit(int32_t slot, const Slot& state, std::span<const int32_t> /*tokens*/) {
  const bool rejection = state.params.scheme == SamplingScheme::kRejection && !state.params.greedy();
  distributions_.set(ops_, slot, rejection,
                     static_cast<size_t>(max_width()) * static_cast<size_t>(head_->vocab()) * sizeof(float));
}

// What is drawn by rejection needs a distribution for each draft, and a constraint knows what follows a chain.
bool AutoregressiveProposer::may_branch(const ChainSpan& span, const Slot& slot) const {
  return span.branches > 0 && span.most > 2 && distributions_.of(span.slot) == nullptr && slot.constraint == nullptr;
}

void AutoregressiveProposer::propose(std::span<ChainSpan> spans, SlotTable& slots) {
  if (is_masked()) return propose_masked(spans, slots);
  drafting_.clear();
  n_trees_ = 0;
  free_scratch_ = scratch_begin_;
  for (ChainSpan& span : spans) {
    if (span.width < 2 || !span.proposes) continue;
    if (takes_tree(span, slots[span.slot])) continue;
    span.draft_rows = span.width;
    drafting_.push_back(&span);
  }
  propose_trees(slots);
  propose_chains(slots);
}

void AutoregressiveProposer::propose_chains(SlotTable& slots) {
  if (drafting_.empty()) return;
  rows_.clear();
  for (const ChainSpan* span : drafting_) rows_.push_back(span->slot);
  Tensor features = head_->features(select(newest_, rows_, aux_));
  for (int32_t k = 1;; ++k) {
    const DraftHead::Output out = run_pass(k, features);
    choose(k, out.hidden, slots);
    rows_.clear();
    for (size_t i = 0; i < drafting_.size(); ++i) {
      if (drafting_[i]->width > k + 1) rows_.push_back(static_cast<int32_t>(i));
    }
    if (rows_.empty()) return;
    features = select(out.features, rows_, features_);
    for (size_t i = 0; i < rows_.size(); ++i) drafting_[i] = drafting_[static_cast<size_t>(rows_[i])];
    drafting_.resize(rows_.size());
  }
}

Tensor AutoregressiveProposer::select(Tensor rows, std::span<const int32_t> wanted, Tensor room) {
  const auto n = static_cast<int32_t>(wanted.size());
  bool are_first = true;
  for (int32_t i = 0; i < n; ++i) are_first = are_first && wanted[i] == i;
  if (are_first) return rows.narrow(n);
  wanted_.upload(wanted);
  ops_.gather_rows(rows, wanted_.device(), room.narrow(n));
  return room.narrow(n);
}

// Position 0 has no context of its own, unless it is the last token's.
DraftHead::Output AutoregressiveProposer::run_pass(int32_t k, Tensor features) {
  batch_->clear();
  for (const ChainSpan* span : drafting_) {
    batch_->begin_sequence(span->pages, std::max(span->context_begin, std::min(span->start, 1)));
    batch_->add_row(span->ids[k - 1], span->start + k - 1, span->start + k);
    batch_->want_output();
  }
  return head_->forward(features, *batch_, *kv_);
}

void AutoregressiveProposer::choose(int32_t k, Tensor hidden, SlotTable& slots) {
  for (int32_t first = 0; first < hidden.rows; first += logits_->capacity()) {
    const int32_t n = std::min(logits_->capacity(), hidden.rows - first);
    const auto spans = std::span<ChainSpan* const>(drafting_).subspan(first, n);
    const bool highest =
        std::ranges::all_of(spans, [&](const ChainSpan* span) { return slots[span->slot].params.takes_highest(); });
    highest ? choose_highest(k, hidden.part(first, n), spans) : sample(k, hidden.part(first, n), spans, slots);
  }
}

void AutoregressiveProposer::choose_highest(int32_t k, Tensor hidden, std::span<ChainSpan* const> spans) {
  head_->head_argmax(hidden, entries_.device());
  const std::span<const int32_t> entries = entries_.download(hidden.rows);
  for (size_t i = 0; i < spans.size(); ++i) {
    const int32_t entry = std::max(entries[i], 0);  // without numbers any draft will do
    spans[i]->ids[k] = head_->id_map() == nullptr ? entry : head_->id_map()[entry];
  }
}

// With the noise of the position that the draft is for, and having seen the drafts before it.
void AutoregressiveProposer::sample(int32_t k, Tensor hidden, std::span<ChainSpan* const> spans, SlotTable& slots) {
  const Tensor logits = logits_->rows(hidden.rows);
  head_->head(hidden, logits);
  requests_.clear();
  for (size_t i = 0; i < spans.size(); ++i) {
    const ChainSpan& span = *spans[i];
    const Slot& slot = slots[span.slot];
    RowRequest& request = requests_.emplace_back();
    request.row = static_cast<int32_t>(i);
    request.position = span.start + k;
    request.params = &slot.params;
    request.seen.counts = &slot.counts;
    if (slot.params.has_penalties()) request.seen.after = {span.ids + 1, static_cast<size_t>(k) - 1};
    request.id_map = head_->id_map();
    if (distributions_.of(span.slot) != nullptr) {
      request.pick = Pick::kDraft;
      request.distribution = distribution(span.slot, k);
      request.distribution_size = head_->vocab();
    }
  }
  const auto choices = std::span(choices_).first(spans.size());
  ops_.choose(logits, requests_, choices);
  for (size_t i = 0; i < spans.size(); ++i) spans[i]->ids[k] = std::max(choices[i].token, 0);
}

float* AutoregressiveProposer::distribution(int32_t slot, int32_t index) const {
  return reinterpret_cast<float*>(distributions_.of(slot)->data()) + static_cast<size_t>(index) * head_->vocab();
}

const float* AutoregressiveProposer::draft_distribution(int32_t slot, int32_t index) const {
  return distributions_.of(slot) != nullptr ? distribution(slot, index) : nullptr;
}

void AutoregressiveProposer::write_context(const CommittedRows& committed) {
  head_->forward(head_->features(committed.aux_hidden), committed.batch, *kv_);
}

}  // namespace ashlar
