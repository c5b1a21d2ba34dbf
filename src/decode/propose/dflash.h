// SPDX-License-Identifier: Apache-2.0
#pragma once
// DFlash proposals: one pass of the drafter over [last token, mask, ...] per sequence fills the whole block; with more
// passes the block is denoised, most confident positions first. Drafters with a candidate selector choose each draft by
// the one before it.

#include <memory>
#include <vector>

#include "decode/logits.h"
#include "decode/propose/denoise_schedule.h"
#include "decode/propose/draft_distributions.h"
#include "decode/propose/draft_tree.h"
#include "decode/propose/proposer.h"
#include "decode/propose/selector_walk.h"
#include "model/drafters/dflash.h"

namespace ashlar {

struct DflashOptions {
  static constexpr int32_t kDefaultBranches = 3;  ///< more win little (docs/kernels.md)

  int32_t width =
      0;  ///< rows of a verify span, last token included; 0: chosen pass by pass, up to the drafter's own block
  int32_t window = 0;  ///< the drafter sees the newest `window` tokens only (whole pages); 0: all
  int32_t passes = 1;  ///< drafter passes per block; 1 is plain DFlash
  DenoiseSchedule schedule = DenoiseSchedule::kCosine;
  int32_t branches = kDefaultBranches;  ///< of a draft tree after its first, with one pass; 0: drafts are a chain
};

/// Window pages of such a drafter's planes while `sequences` run; 0: as many as the cache has pages.
int64_t drafter_window_pages(const DflashConfig& config, const DflashOptions& options, int32_t sequences);

/// Spare pages of the target's planes for the trees of `sequences` sequences.
int64_t drafter_spare_pages(const DflashConfig& config, const DflashOptions& options, int32_t sequences);

class DflashProposer final : public Proposer {
 public:
  /// Throws Error("drafter", ...) if options do not fit the drafter.
  DflashProposer(std::unique_ptr<DflashDrafter> drafter, Ops& ops, const DflashOptions& options);

  std::string name() const override { return "dflash"; }
  int32_t max_width() const override { return options_.width; }
  int32_t max_branches() const override;
  bool reads_newest() const override { return sees_blocks(); }
  bool fills_whole_blocks() const override { return sees_blocks() || drafter_->refiner() != nullptr; }
  bool adapts_width() const override { return adapts_; }
  std::span<const AuxLayer> aux_layers() const override { return drafter_->aux_layers(); }
  int32_t aux_width() const override { return drafter_->aux_width(); }
  int32_t window() const override { return options_.window; }
  KeysSeen keys_seen() const override;
  void register_state(KvLayout& layout) override { drafter_->register_state(layout); }
  void start(const StepLimits& limits, const KvMemory& kv) override;
  void set_newest(Tensor newest) override { newest_ = newest; }
  void admit(int32_t slot, const Slot& state, std::span<const int32_t> tokens) override;
  void propose(std::span<ChainSpan> spans, SlotTable& slots) override;
  const float* draft_distribution(int32_t slot, int32_t index) const override;
  void write_context(const CommittedRows& committed) override;

 private:
  // One block being filled.
  struct Block {
    ChainSpan* span = nullptr;
    bool tree = false;
    bool rated = false;  // its drafts, which are as many as the proposer's block has, by the confidence head
    int32_t first_output = 0;
    int32_t n_outputs = 0;
    int32_t revealed = 0;               // drafts fixed so far
    int32_t reveal = 0;                 // drafts to fix in this pass
    bool known[kMaxWidth] = {};         // by draft index 1..width-1
    float confidence[kMaxWidth] = {};   // of this pass
    int32_t candidate[kMaxWidth] = {};  // of this pass
    int32_t fixed = 0;                  // first drafts that no round of a refiner changes any more
  };

  /// Whether the drafter's selector does.
  bool sees_blocks() const;
  void run_pass(SlotTable& slots);
  /// Rows of a tree, or a chain, of the drafter's candidates. hidden and logits begin with the first block's.
  void walk_candidates(std::span<Block> blocks, SlotTable& slots, Tensor hidden, Tensor logits);
  /// The target's features before the last token of each block.
  Tensor features_before(std::span<const Block> blocks);
  void fill_batch();
  /// Drafts whose logits depend on the one before, of all blocks together, position by position.
  void choose_in_turn(std::span<Block> blocks, SlotTable& slots, Tensor hidden, Tensor logits);
  /// Drafts of a refiner: of all blocks together, and again until none changes.
  void refine_drafts(std::span<Block> blocks, SlotTable& slots, Tensor hidden);
  /// Asks about all drafts that may change, whose logits stand one after the other, and takes the answers.
  void ask_open(std::span<Block> blocks, SlotTable& slots, Tensor logits);
  /// What the confidence head says of the drafts that choose_in_turn() has made.
  void rate_drafts(std::span<Block> blocks, Tensor hidden);
  bool needs_logits(const Block& block, const Slot& slot) const;
  void choose_highest(std::span<Block> blocks, std::span<const int32_t> entries);
  void choose_drafts(std::span<Block> blocks, SlotTable& slots, Tensor logits);
  void ask(Block& block, int32_t row, int32_t k, const Slot& slot);
  void answer(Tensor logits);
  class TreeRows;
  void reveal(Block& block);

  std::unique_ptr<DflashDrafter> drafter_;
  Ops& ops_;
  DflashOptions options_;
  bool adapts_;
  const KvMemory* kv_ = nullptr;
  std::unique_ptr<RowBatch> batch_;
  std::unique_ptr<LogitsBuffer> logits_;
  DeviceArray<int32_t> entries_;  // of the draft vocabulary, for rows whose logits nothing else needs
  DraftTreeBuilder builder_;
  std::unique_ptr<SelectorWalk> walk_;  // where the drafter has a selector
  std::vector<CandidateRows::Begin> begins_;
  Tensor newest_, before_rows_;  // of all slots, of the blocks of a call: where the selector sees_blocks()
  std::unique_ptr<Buffer> before_storage_;
  DeviceArray<int32_t> block_slots_;
  std::vector<int32_t> host_block_slots_;
  std::vector<InTurnHead::Step> steps_;
  std::vector<int32_t> before_;  // the token before each row of the logits, or of a refiner's blocks
  std::vector<BlockRefiner::Block> places_;
  std::vector<int32_t> refined_rows_;      // of a refiner's blocks
  std::unique_ptr<LogitsBuffer> refined_;  // what it makes of logits_, which all rounds begin with
  std::vector<Block> blocks_;
  std::vector<RowRequest> requests_;
  struct Asked {
    Block* block;
    int32_t k;  // draft index
  };
  std::vector<Asked> asked_;  // as requests_
  std::vector<RowChoice> choices_;
  std::vector<LikeliestTokens> likeliest_;  // by row of the logits, of trees
  DraftDistributions distributions_;
  std::vector<int32_t> counts_;
};

}  // namespace ashlar
