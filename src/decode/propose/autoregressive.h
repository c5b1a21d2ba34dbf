// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafts that a head writes one after another: as many passes as a path has drafts, of one row a sequence, or a few
// where drafts are a tree. The first reads what the target left before the last token, the others what the pass before
// them left. A head with a mask drafts all positions in one pass instead.

#include <memory>
#include <string>
#include <vector>

#include "decode/logits.h"
#include "decode/propose/draft_distributions.h"
#include "decode/propose/draft_tree.h"
#include "decode/propose/growing_tree.h"
#include "decode/propose/proposer.h"
#include "device/device_array.h"
#include "model/drafters/draft_head.h"

namespace ashlar {

struct AutoregressiveOptions {
  static constexpr int32_t kDefaultWidth = 6;  ///< each draft is a pass; later ones are rarely accepted
  static constexpr int32_t kMaxWidth = 16;

  int32_t width = 0;     ///< rows of a verify span, last token included; 0: chosen pass by pass, up to kDefaultWidth
  int32_t window = 0;    ///< the head sees the newest `window` tokens only (whole pages); 0: all
  int32_t branches = 0;  ///< of a draft tree after its first; 0: drafts are a chain

  /// Rows that a pass over a tree may have.
  int32_t beam() const { return branches + 1; }
  /// Pages of the head's planes for the trees of `sequences` sequences: a row of a tree that is verified stands for as
  /// many that a pass runs.
  int32_t spare_pages(int32_t sequences) const { return beam() * branch_pages(branches, max_width(), sequences); }
  int32_t max_width() const { return width > 0 ? width : kDefaultWidth; }
};

class AutoregressiveProposer final : public Proposer {
 public:
  /// `name`: the method's. Throws Error("drafter", ...) if options are out of range.
  AutoregressiveProposer(std::string name, std::unique_ptr<DraftHead> head, Ops& ops,
                         const AutoregressiveOptions& options);

  std::string name() const override { return name_; }
  int32_t max_width() const override { return options_.max_width(); }
  int32_t max_branches() const override { return options_.branches; }
  int32_t spare_pages(int32_t max_slots) const override { return is_masked() ? 0 : options_.spare_pages(max_slots); }
  bool adapts_width() const override { return options_.width == 0; }
  std::span<const AuxLayer> aux_layers() const override { return head_->aux_layers(); }
  int32_t aux_width() const override { return head_->aux_width(); }
  bool reads_before() const override { return true; }
  bool drafts_in_turn() const override { return !is_masked(); }
  int32_t window() const override { return options_.window; }
  void register_state(KvLayout& layout) override { head_->register_state(layout); }
  void start(const StepLimits& limits, const KvMemory& kv) override;
  void set_newest(Tensor newest) override { newest_ = newest; }
  void admit(int32_t slot, const Slot& state, std::span<const int32_t> tokens) override;
  void propose(std::span<ChainSpan> spans, SlotTable& slots) override;
  const float* draft_distribution(int32_t slot, int32_t index) const override;
  void write_context(const CommittedRows& committed) override;

 private:
  bool is_masked() const { return head_->mask_id() >= 0; }
  /// Whether a tree of drafts may be made for the span.
  bool may_branch(const ChainSpan& span, const Slot& slot) const;
  void start_trees(const StepLimits& limits, const KvMemory& kv);
  void propose_chains(SlotTable& slots);
  /// Whether its drafts are a tree, for which it takes scratch slots.
  bool takes_tree(ChainSpan& span, const Slot& slot);
  void propose_trees(SlotTable& slots);
  /// Rows of the newest nodes of all trees.
  void fill_tree_batch();
  /// Asks of each newest node what may follow it.
  void ask_of_nodes(Tensor hidden, SlotTable& slots);
  /// Drafts of all positions in one pass, of a head with a mask.
  void propose_masked(std::span<ChainSpan> spans, SlotTable& slots);
  DraftHead::Output run_masked_pass();
  void choose_masked_chains(Tensor hidden, SlotTable& slots);
  void grow_masked_trees(Tensor hidden, SlotTable& slots);
  /// Some rows one after another: copies in `room`, unless they are the first ones.
  Tensor select(Tensor rows, std::span<const int32_t> wanted, Tensor room);
  /// Pass k: draft k of every drafting span.
  DraftHead::Output run_pass(int32_t k, Tensor features);
  void choose(int32_t k, Tensor hidden, SlotTable& slots);
  void choose_highest(int32_t k, Tensor hidden, std::span<ChainSpan* const> spans);
  void sample(int32_t k, Tensor hidden, std::span<ChainSpan* const> spans, SlotTable& slots);
  float* distribution(int32_t slot, int32_t index) const;

  std::string name_;
  std::unique_ptr<DraftHead> head_;
  Ops& ops_;
  AutoregressiveOptions options_;
  const KvMemory* kv_ = nullptr;
  Tensor newest_;
  std::unique_ptr<RowBatch> batch_;
  std::unique_ptr<LogitsBuffer> logits_;
  DeviceArray<int32_t> entries_;  // of the draft vocabulary, for rows whose logits nothing else needs
  DeviceArray<int32_t> wanted_;
  std::unique_ptr<Buffer> storage_;
  Tensor aux_;       // [max_slots, aux_width]: of the spans that draft
  Tensor features_;  // [max_slots, feature_width]: of those that still do
  std::vector<ChainSpan*> drafting_;
  struct Tree {
    ChainSpan* span = nullptr;
    int32_t passes = 0;   // at most
    int32_t scratch = 0;  // its next free slot
    GrowingTree nodes;
  };
  std::vector<Tree> trees_;  // of the step: the first n_trees_
  size_t n_trees_ = 0;
  int32_t scratch_begin_ = 0, scratch_end_ = 0, free_scratch_ = 0;  // slots of the head's planes
  DraftTreeBuilder builder_;
  struct Asked {
    size_t tree, node;
  };
  std::vector<Asked> asked_;
  struct MaskedBlock {
    ChainSpan* span = nullptr;
    int32_t first_row = 0;
    bool tree = false;
  };
  std::vector<MaskedBlock> blocks_;
  Tensor known_features_;                   // [max_slots + 1, feature_width], the last row the mask's
  std::vector<LikeliestTokens> likeliest_;  // by row of the pass
  std::vector<int32_t> rows_;
  std::vector<RowRequest> requests_;
  std::vector<RowChoice> choices_;
  DraftDistributions distributions_;
};

}  // namespace ashlar
