// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/dflash.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "decode/propose/draft_context.h"
#include "device/sampling/noise.h"

namespace ashlar {
namespace {

int32_t widest_block(const DflashConfig& config) { return std::min(config.max_width(), kMaxWidth); }
int32_t width_of(const DflashConfig& config, const DflashOptions& options) {
  return options.width == 0 ? widest_block(config) : options.width;
}
// A head whose drafts depend on all before them has no tokens of a tree to offer.
int32_t branches_of(const DflashConfig& config, const DflashOptions& options) {
  return options.passes == 1 && !config.drafts_chains() ? options.branches : 0;
}

}  // namespace

int64_t drafter_window_pages(const DflashConfig& config, const DflashOptions& options, int32_t sequences) {
  return DraftContext::window_pages(options.window, width_of(config, options), sequences);
}

int64_t drafter_spare_pages(const DflashConfig& config, const DflashOptions& options, int32_t sequences) {
  return branch_pages(branches_of(config, options), width_of(config, options), sequences);
}

int32_t DflashProposer::max_branches() const { return branches_of(drafter_->config(), options_); }

KeysSeen DflashProposer::keys_seen() const {
  std::vector<int32_t> windows;
  for (const LayerAttention& layer : drafter_->config().stack.layers) {
    const bool narrower = options_.window > 0 && (layer.window == 0 || options_.window < layer.window);
    windows.push_back(narrower ? options_.window : layer.window);
  }
  return KeysSeen(std::move(windows));
}

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
  if (options_.passes > 1 && drafter_->selector() != nullptr) {
    fail(std::to_string(options_.passes) +
         " denoising passes asked for; this drafter chooses among candidates, which takes one");
  }
  const std::string way = config.refiner ? "chooses all drafts again in rounds" : "chooses drafts one after the other";
  if (options_.passes > 1 && config.drafts_chains()) {
    fail(std::to_string(options_.passes) + " denoising passes asked for; this drafter " + way + ", which takes one");
  }
  if (config.drafts_chains() && options_.branches != DflashOptions::kDefaultBranches && options_.branches != 0) {
    fail(std::to_string(options_.branches) + " branches asked for; this drafter " + way +
         ": a chain, which 0 or the default give");
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
  entries_ = {ops_, kChoiceRows};
  if (CandidateHead* const selector = drafter_->selector()) {
    selector->reserve(ops_, kLogitRows);
    walk_ = std::make_unique<SelectorWalk>(ops_, selector->candidates(), drafter_->config().vocab);
    begins_.reserve(kLogitRows);
    if (selector->sees_blocks()) {
      const int32_t width = aux_width();
      const DType type = ops_.activation_type();
      before_storage_ =
          ops_.allocate(bytes_of(type) * static_cast<size_t>(limits.max_slots) * static_cast<size_t>(width));
      before_rows_ = {before_storage_->data(), limits.max_slots, width, width, type};
      block_slots_ = {ops_, limits.max_slots};
      host_block_slots_.reserve(static_cast<size_t>(limits.max_slots));
    }
  }
  if (InTurnHead* const head = drafter_->in_turn()) {
    head->reserve(ops_, limits.max_slots);
    steps_.reserve(limits.max_slots);
    before_.reserve(kLogitRows);
  }
  if (BlockRefiner* const refiner = drafter_->refiner()) {
    refiner->reserve(ops_, kLogitRows);
    refined_ = std::make_unique<LogitsBuffer>(ops_, kLogitRows, drafter_->config().draft_vocab);
    before_.reserve(kLogitRows);
    refined_rows_.reserve(kLogitRows);
    places_.reserve(limits.max_slots);
  }
  if (drafter_->confidence() != nullptr) drafter_->confidence()->reserve(ops_, kLogitRows);
  requests_.reserve(kLogitRows);
  asked_.reserve(kLogitRows);
  choices_.resize(kLogitRows);
  likeliest_.resize(kLogitRows);
  blocks_.reserve(limits.max_slots);
  distributions_.reserve(limits.max_slots);
  counts_.reserve(kMaxWidth);
}

void DflashProposer::admit(int32_t slot, const Slot& state, std::span<const int32_t> /*tokens*/) {
  // In several passes a draft may be drawn after one that stands later: what it was drawn from is then no distribution
  // that rejection may ask for, and it counts as certain.
  const bool rejection = state.params.scheme == SamplingScheme::kRejection && !state.params.greedy();
  distributions_.set(ops_, slot, rejection && options_.passes == 1,
                     static_cast<size_t>(options_.width) * drafter_->config().vocab * sizeof(float));
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
    block.tree = span.branches > 0 && !drafter_->config().drafts_chains() && distributions_.of(span.slot) == nullptr &&
                 slot.constraint == nullptr;
    // Whether a draft is verified may depend on the one after it, which rejection forbids.
    block.rated =
        drafter_->confidence() != nullptr && distributions_.of(span.slot) == nullptr && slot.constraint == nullptr;
    if (block.tree) span.width = span.most;
    if (block.rated) span.width = span.draft_rows;
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
    const bool refines = drafter_->refiner() != nullptr;  // and reads the last token's row
    const bool whole = block.tree || fills_whole_blocks();
    const int32_t looked_at = whole ? span.draft_rows : span.width;
    const int32_t last = from_anchor ? looked_at - 1 : looked_at;
    for (int32_t r = 0; r < rows; ++r) {
      batch_->add_row(span.ids[r], span.start + r, span.start + rows);
      if (r < last && (from_anchor || refines || r > 0)) {
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
  for (size_t first = 0; first < blocks_.size();) {
    size_t last = first;
    int32_t rows = 0;
    bool highest = !walk_ && drafter_->in_turn() == nullptr && drafter_->refiner() == nullptr;
    for (; last < blocks_.size(); ++last) {
      const Block& block = blocks_[last];
      const bool still = highest && !needs_logits(block, slots[block.span->slot]);
      if (rows + block.n_outputs > (still ? kChoiceRows : logits_->capacity())) break;
      rows += block.n_outputs;
      highest = still;
    }
    const auto blocks = std::span(blocks_).subspan(first, last - first);
    const Tensor outputs = hidden.part(blocks.front().first_output, rows);
    if (rows > 0 && walk_) {
      drafter_->head(outputs, logits_->rows(rows));
      walk_candidates(blocks, slots, outputs, logits_->rows(rows));
    } else if (rows > 0 && drafter_->in_turn() != nullptr) {
      drafter_->head(outputs, logits_->rows(rows));
      choose_in_turn(blocks, slots, outputs, logits_->rows(rows));
    } else if (rows > 0 && drafter_->refiner() != nullptr) {
      refine_drafts(blocks, slots, outputs);
    } else if (rows > 0 && highest) {
      drafter_->head_argmax(outputs, entries_.device());
      choose_highest(blocks, entries_.download(rows));
    } else if (rows > 0) {
      drafter_->head(outputs, logits_->rows(rows));
      choose_drafts(blocks, slots, logits_->rows(rows));
    }
    first = last;
  }
}

// False if the highest logit of every row is the draft: the last pass over a block whose slot takes_highest().
bool DflashProposer::needs_logits(const Block& block, const Slot& slot) const {
  if (block.reveal == 0) return false;
  if (block.tree) return true;
  return !slot.params.takes_highest() || block.revealed + block.reveal < block.span->width - 1;
}

void DflashProposer::choose_highest(std::span<Block> blocks, std::span<const int32_t> entries) {
  const int32_t* const id_map = drafter_->id_map();
  for (Block& block : blocks) {
    if (block.reveal == 0) continue;
    const int32_t first = block.first_output - blocks.front().first_output;
    for (int32_t k = 1; k < block.span->width; ++k) {
      const int32_t entry = std::max(entries[first + k - 1], 0);  // without numbers any draft will do
      const int32_t id = id_map == nullptr ? entry : id_map[entry];
      block.candidate[k] = block.known[k] ? block.span->ids[k] : id;
    }
    reveal(block);
  }
}

// What is asked about draft k of a block, whose first row of logits is `row`. Rows of a tree see no drafts: they
// are of any path.
void DflashProposer::ask(Block& block, int32_t row, int32_t k, const Slot& slot) {
  RowRequest& request = requests_.emplace_back();
  asked_.push_back({&block, k});
  request.row = row + k - 1;
  request.position = block.span->start + k;
  request.params = &slot.params;
  request.seen.counts = &slot.counts;
  request.id_map = drafter_->id_map();
  if (block.tree) {
    request.pick = Pick::kLikeliest;
    return;
  }
  if (slot.params.has_penalties()) request.seen.after = {block.candidate + 1, static_cast<size_t>(k) - 1};
  request.statistics = block.revealed + block.reveal < block.span->width - 1;
  if (Buffer* const distributions = distributions_.of(block.span->slot)) {
    request.pick = Pick::kDraft;
    request.distribution_size = drafter_->config().vocab;
    request.distribution =
        reinterpret_cast<float*>(distributions->data()) + static_cast<size_t>(k) * drafter_->config().vocab;
  }
}

void DflashProposer::answer(Tensor logits) {
  const auto choices = std::span(choices_).first(requests_.size());
  ops_.choose(logits, requests_, choices);
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto [block, k] = asked_[i];
    if (block->tree) {
      likeliest_[static_cast<size_t>(requests_[i].row)] = choices[i].likeliest;
    } else {
      block->candidate[k] = std::max(choices[i].token, 0);  // without numbers any draft will do
      block->confidence[k] = choices[i].probability;
    }
  }
  requests_.clear();
  asked_.clear();
}

// Rows of trees: those that nearly every tree reaches are asked about at once, the others when one does.
class DflashProposer::TreeRows final : public CandidateSource {
 public:
  static constexpr int32_t kMostlyReached = 6;

  TreeRows(DflashProposer& self, std::span<Block> blocks, SlotTable& slots, Tensor logits)
      : self_(self), blocks_(blocks), slots_(slots), logits_(logits) {}

  void begin(const Block& block) { row_ = row_of(block); }
  const LikeliestTokens& at(int32_t depth, int32_t /*before*/) override {
    if (depth > kMostlyReached && !found_all_) find_others();
    return self_.likeliest_[static_cast<size_t>(row_ + depth - 1)];
  }

 private:
  int32_t row_of(const Block& block) const { return block.first_output - blocks_.front().first_output; }
  void find_others() {
    for (Block& block : blocks_) {
      if (!block.tree) continue;
      for (int32_t k = kMostlyReached + 1; k <= block.n_outputs; ++k) {
        self_.ask(block, row_of(block), k, slots_[block.span->slot]);
      }
    }
    self_.answer(logits_);
    found_all_ = true;
  }

  DflashProposer& self_;
  std::span<Block> blocks_;
  SlotTable& slots_;
  Tensor logits_;
  int32_t row_ = 0;
  bool found_all_ = false;
};

// Drafts that depend on those before them, by penalties, come one after another, all others at once. Then the `reveal`
// most confident ones of a block are fixed.
void DflashProposer::choose_drafts(std::span<Block> blocks, SlotTable& slots, Tensor logits) {
  const auto row_of = [&](const Block& block) { return block.first_output - blocks.front().first_output; };
  const auto in_turn = [&](const Block& block) {
    return !block.tree && block.reveal > 0 && slots[block.span->slot].params.has_penalties();
  };
  for (Block& block : blocks) {
    if (block.reveal == 0) continue;
    std::copy_n(block.span->ids, kMaxWidth, block.candidate);  // of those that are known
    const int32_t last = block.tree ? std::min(block.n_outputs, TreeRows::kMostlyReached) : block.span->width - 1;
    for (int32_t k = 1; k <= last && !in_turn(block); ++k) {
      if (!block.known[k]) ask(block, row_of(block), k, slots[block.span->slot]);
    }
  }
  answer(logits);
  if (std::any_of(blocks.begin(), blocks.end(), in_turn)) {
    for (int32_t k = 1; k < options_.width; ++k) {
      for (Block& block : blocks) {
        if (!in_turn(block) || k >= block.span->width || block.known[k]) continue;
        ask(block, row_of(block), k, slots[block.span->slot]);
      }
      answer(logits);
    }
  }
  TreeRows rows(*this, blocks, slots, logits);
  for (Block& block : blocks) {
    if (block.tree) {
      rows.begin(block);
      builder_.build(rows, block.n_outputs, options_.width - 1, *block.span);
    } else if (block.reveal > 0) {
      reveal(block);
    }
  }
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

const float* DflashProposer::draft_distribution(int32_t slot, int32_t index) const {
  Buffer* const distributions = distributions_.of(slot);
  if (distributions == nullptr) return nullptr;
  return reinterpret_cast<const float*>(distributions->data()) + static_cast<size_t>(index) * drafter_->config().vocab;
}

void DflashProposer::write_context(const CommittedRows& committed) {
  drafter_->write_context(committed.aux_hidden, committed.batch.rows(), *kv_);
}

}  // namespace ashlar
