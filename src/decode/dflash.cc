#include "decode/dflash.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "decode/draft_context.h"
#include "decode/noise.h"

namespace ashlar {
namespace {

int32_t widest_block(const DflashConfig& config) { return std::min(config.max_width(), kMaxWidth); }
int32_t width_of(const DflashConfig& config, const DflashOptions& options) {
  return options.width == 0 ? widest_block(config) : options.width;
}
int32_t branches_of(const DflashOptions& options) { return options.passes == 1 ? options.branches : 0; }

}  // namespace

int64_t drafter_window_pages(const DflashConfig& config, const DflashOptions& options, int32_t sequences) {
  return DraftContext::window_pages(options.window, width_of(config, options), sequences);
}

int64_t drafter_spare_pages(const DflashConfig& config, const DflashOptions& options, int32_t sequences) {
  return branch_pages(branches_of(options), width_of(config, options), sequences);
}

int32_t DflashProposer::max_branches() const { return branches_of(options_); }

DflashProposer::DflashProposer(std::unique_ptr<DflashDrafter> drafter, Ops& ops, const DflashOptions& options)
    : drafter_(std::move(drafter)), ops_(ops), options_(options), adapts_(options.width == 0) {
  const DflashConfig& config = drafter_->config();
  const int32_t widest = widest_block(config);
  const auto fail = [&](const std::string& what) { throw Error("drafter", config.folder.string() + ": " + what); };
  if (options_.width == 0) options_.width = widest;
  if (options_.width < 2 || options_.width > widest) {
    fail("block width " + std::to_string(options_.width) + " asked for; this drafter offers 2 to " +
         std::to_string(widest));
  }
  if (options_.passes < 1 || options_.passes > kMaxWidth) {
    fail(std::to_string(options_.passes) + " denoising passes asked for; expected 1 to " + std::to_string(kMaxWidth));
  }
  if (options_.branches < 0 || options_.branches >= kMaxWidth) {
    fail(std::to_string(options_.branches) + " branches asked for; expected 0 to " + std::to_string(kMaxWidth - 1));
  }
  if (options_.window != 0 && options_.window < options_.width) {
    fail("draft window " + std::to_string(options_.window) + " asked for; expected at least the block width, " +
         std::to_string(options_.width) + ", or 0 for none");
  }
}

void DflashProposer::start(const StepLimits& limits, const KvMemory& kv) {
  kv_ = &kv;
  const int32_t rows = limits.max_slots * options_.width;
  drafter_->reserve(limits.max_rows, rows);
  batch_ = std::make_unique<RowBatch>(ops_, rows, limits.max_slots);
  logits_ = std::make_unique<LogitsBuffer>(ops_, kLogitRows, drafter_->config().draft_vocab);
  entries_ = {ops_, kLogitRows};
  candidates_.resize(kLogitRows);
  blocks_.reserve(limits.max_slots);
  builders_.resize(limits.max_slots);
  scratch_.resize(limits.max_slots);
  for (SamplerScratch& scratch : scratch_) scratch.reserve(drafter_->config().draft_vocab);
  distributions_.resize(limits.max_slots);
  counts_.reserve(kMaxWidth);
}

void DflashProposer::admit(int32_t slot, const Slot& state) {
  // In several passes a draft may be drawn behind one that stands later: what it was drawn from is then no distribution
  // that rejection may ask for, and it counts as certain.
  const bool rejection = state.params.scheme == SamplingScheme::kRejection && !state.params.greedy();
  const size_t size =
      rejection && options_.passes == 1 ? static_cast<size_t>(options_.width) * drafter_->config().vocab : 0;
  if (distributions_[slot].size() != size) std::vector<float>(size).swap(distributions_[slot]);
}

void DflashProposer::propose(std::span<ChainSpan> spans, SlotTable& slots) {
  blocks_.clear();
  int32_t passes = 1;
  for (ChainSpan& span : spans) {
    if (span.width < 2 || !span.proposes) continue;
    span.draft_rows = options_.passes > 1 ? span.width : std::max(span.draft_rows, span.width);
    for (int32_t k = 1; k < span.draft_rows; ++k) span.ids[k] = drafter_->config().mask_id;
    Block& block = blocks_.emplace_back();
    block.span = &span;
    const Slot& slot = slots[span.slot];
    block.tree = span.branches > 0 && distributions_[span.slot].empty() && slot.constraint == nullptr;
    if (block.tree) span.width = span.most;
    passes = std::max(passes, std::min(options_.passes, span.width - 1));
  }
  for (int32_t pass = 0; pass < passes && !blocks_.empty(); ++pass) {
    for (Block& block : blocks_) {
      denoise_counts(options_.schedule, block.span->width - 1, options_.passes, counts_);
      block.reveal = pass < static_cast<int32_t>(counts_.size()) ? counts_[pass] : 0;
    }
    run_pass(slots);
  }
}

void DflashProposer::fill_batch() {
  batch_->clear();
  const bool from_anchor = drafter_->config().sample_from_anchor;
  for (Block& block : blocks_) {
    block.first_output = batch_->n_outputs();
    block.n_outputs = 0;
    if (block.reveal == 0) continue;
    const ChainSpan& span = *block.span;
    batch_->begin_sequence(span.pages, span.context_begin);
    const int32_t rows = from_anchor ? span.draft_rows - 1 : span.draft_rows;
    const int32_t looked_at = block.tree ? span.draft_rows : span.width;
    const int32_t last = from_anchor ? looked_at - 1 : looked_at;
    for (int32_t r = 0; r < rows; ++r) {
      batch_->add_row(span.ids[r], span.start + r, span.start + rows);
      if (r < last && (from_anchor || r > 0)) {
        batch_->want_output();
        ++block.n_outputs;
      }
    }
  }
}

void DflashProposer::run_pass(SlotTable& slots) {
  fill_batch();
  if (batch_->n() == 0) return;
  const Tensor hidden = drafter_->forward(*batch_, *kv_);
  struct Chunk {
    DflashProposer* self;
    SlotTable* slots;
    float* logits;           // [rows, vocab], or null
    const int32_t* choices;  // [rows], or null
    size_t first;
  };
  for (size_t first = 0; first < blocks_.size();) {
    size_t last = first;
    int32_t rows = 0;
    bool choices = true;
    for (; last < blocks_.size() && rows + blocks_[last].n_outputs <= logits_->capacity(); ++last) {
      rows += blocks_[last].n_outputs;
      choices = choices && !needs_logits(blocks_[last], slots[blocks_[last].span->slot]);
    }
    Chunk chunk = {this, &slots, nullptr, nullptr, first};
    if (rows > 0) {
      const Tensor outputs = hidden.part(blocks_[first].first_output, rows);
      if (choices) {
        drafter_->head_argmax(outputs, entries_.device());
        chunk.choices = entries_.host(rows);
      } else {
        drafter_->head(outputs, logits_->rows(rows));
        chunk.logits = logits_->host(rows);
      }
    }
    if (last == first + 1 && blocks_[first].tree) {
      grow_tree(first, 0, slots, chunk.logits, true);
      first = last;
      continue;
    }
    ops_.for_each(
        static_cast<int32_t>(last - first),
        [](void* context, int32_t i) {
          const auto* c = static_cast<const Chunk*>(context);
          Block& block = c->self->blocks_[c->first + i];
          const int32_t row = block.first_output - c->self->blocks_[c->first].first_output;
          if (block.tree) return c->self->grow_tree(c->first + i, row, *c->slots, c->logits, false);
          if (c->choices != nullptr) return c->self->choose_block(block, c->choices + row);
          c->self->sample_block(block, (*c->slots)[block.span->slot],
                                c->logits + int64_t{row} * c->self->drafter_->config().draft_vocab,
                                c->self->scratch_[c->first + i]);
        },
        &chunk);
    first = last;
  }
}

// Candidates of a block's rows, found when the tree gets there.
class DflashProposer::RowCandidates final : public CandidateSource {
 public:
  RowCandidates(DflashProposer& self, const Block& block, const Slot& slot, float* logits, int32_t first_row,
                SamplerScratch& scratch)
      : self_(self), block_(block), slot_(slot), logits_(logits), first_row_(first_row), scratch_(scratch) {}

  const DraftCandidates& at(int32_t depth) override {
    if (!found_[depth]) find(depth);
    return self_.candidates_[static_cast<size_t>(first_row_ + depth - 1)];
  }
  // Calls for different depths may run side by side if the slot is greedy.
  void find(int32_t depth) {
    const int32_t row = first_row_ + depth - 1;
    const int32_t vocab = self_.drafter_->config().draft_vocab;
    const int32_t* id_map = self_.drafter_->id_map();
    float* const logits = logits_ + int64_t{row} * vocab;
    adjust_logits(logits, vocab, slot_.params, &slot_.counts, id_map);
    find_candidates(logits, vocab, slot_.params, block_.span->start + depth, id_map, scratch_,
                    self_.candidates_[static_cast<size_t>(row)]);
    found_[depth] = true;
  }

 private:
  DflashProposer& self_;
  const Block& block_;
  const Slot& slot_;
  float* logits_;
  int32_t first_row_;
  SamplerScratch& scratch_;
  bool found_[kMaxWidth] = {};
};

// first_row: of `logits`. A tree that is `alone` has all workers for the rows that nearly every tree reaches.
void DflashProposer::grow_tree(size_t index, int32_t first_row, SlotTable& slots, float* logits, bool alone) {
  constexpr int32_t kMostlyReached = 6;
  const Block& block = blocks_[index];
  const Slot& slot = slots[block.span->slot];
  RowCandidates candidates(*this, block, slot, logits, first_row, scratch_[index]);
  if (alone && slot.params.greedy() && ops_.threads() > 1) {
    ops_.for_each(
        std::min(block.n_outputs, kMostlyReached),
        [](void* context, int32_t i) { static_cast<RowCandidates*>(context)->find(i + 1); }, &candidates);
  }
  builders_[index].build(candidates, block.n_outputs, options_.width - 1, *block.span);
}

// False if the highest logit of every row is the draft: the last pass over a block whose slot takes_highest().
bool DflashProposer::needs_logits(const Block& block, const Slot& slot) const {
  if (block.reveal == 0) return false;
  if (block.tree) return true;
  return !slot.params.takes_highest() || block.revealed + block.reveal < block.span->width - 1;
}

void DflashProposer::choose_block(Block& block, const int32_t* entries) {
  if (block.reveal == 0) return;
  const int32_t* id_map = drafter_->id_map();
  for (int32_t k = 1; k < block.span->width; ++k) {
    const int32_t entry = std::max(entries[k - 1], 0);  // without numbers any draft will do
    const int32_t id = id_map == nullptr ? entry : id_map[entry];
    block.candidate[k] = block.known[k] ? block.span->ids[k] : id;
  }
  reveal(block);
}

// Chooses a token for every open position in order, then fixes the `reveal` most confident ones.
void DflashProposer::sample_block(Block& block, Slot& slot, float* logits, SamplerScratch& scratch) {
  if (block.reveal == 0) return;
  ChainSpan& span = *block.span;
  const int32_t vocab = drafter_->config().draft_vocab;
  const bool penalties = slot.params.has_penalties();
  const bool reveal_all = block.revealed + block.reveal == span.width - 1;
  for (int32_t k = 1; k < span.width; ++k) {
    float* row = logits + int64_t{k - 1} * vocab;
    if (block.known[k]) {
      block.candidate[k] = span.ids[k];
    } else {
      if (!reveal_all) {
        const LogNormaliser normaliser = normalise(row, vocab);
        block.confidence[k] = normaliser.logprob(normaliser.highest);
      }
      block.candidate[k] = sample_draft(span, k, slot, row, scratch);
    }
    if (penalties) slot.counts.add_answer(block.candidate[k]);
  }
  if (penalties) {
    for (int32_t k = 1; k < span.width; ++k) slot.counts.remove_answer(block.candidate[k]);
  }
  reveal(block);
}

void DflashProposer::reveal(Block& block) {
  ChainSpan& span = *block.span;
  for (int32_t left = block.reveal; left > 0; --left) {
    int32_t best = -1;
    for (int32_t k = 1; k < span.width; ++k) {
      if (!block.known[k] && (best < 0 || block.confidence[k] > block.confidence[best])) best = k;
    }
    block.known[best] = true;
    span.ids[best] = block.candidate[best];
  }
  block.revealed += block.reveal;
}

int32_t DflashProposer::sample_draft(const ChainSpan& span, int32_t index, const Slot& slot, float* logits,
                                     SamplerScratch& scratch) {
  const int32_t vocab = drafter_->config().draft_vocab;
  const int32_t position = span.start + index;
  adjust_logits(logits, vocab, slot.params, &slot.counts, drafter_->id_map());
  std::vector<float>& distribution = distributions_[span.slot];
  if (distribution.empty()) {
    return sample_token(logits, vocab, slot.params, position, drafter_->id_map(), scratch);
  }
  float* q = distribution.data() + static_cast<size_t>(index) * drafter_->config().vocab;
  std::fill_n(q, drafter_->config().vocab, 0.0F);
  filter_candidates(logits, vocab, slot.params, drafter_->id_map(), scratch.candidates);
  for (const Candidate& candidate : scratch.candidates) q[candidate.id] = static_cast<float>(candidate.probability);
  return pick_candidate(scratch.candidates, 1.0,
                        noise::uniform(noise::word(slot.params.seed, position, 0, noise::Domain::kDraft)));
}

const float* DflashProposer::draft_distribution(int32_t slot, int32_t index) const {
  const std::vector<float>& distribution = distributions_[slot];
  return distribution.empty() ? nullptr : distribution.data() + static_cast<size_t>(index) * drafter_->config().vocab;
}

void DflashProposer::write_context(const CommittedRows& committed) {
  drafter_->write_context(committed.aux_hidden, committed.rows, *kv_);
}

}  // namespace ashlar
