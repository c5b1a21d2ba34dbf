// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chain decoding: per sequence the last token and a chain of drafts, or a tree of them, are verified in one causal
// pass. Drafts come from a proposer, from what the sequence said before, or from nowhere: then this is plain
// autoregressive decoding. The forward, the sampling and the commit are the same.

#include <memory>
#include <vector>

#include "cache/page_tables.h"
#include "decode/decoder.h"
#include "decode/logits.h"
#include "decode/policy/draft_planner.h"
#include "decode/propose/draft_context.h"
#include "decode/propose/proposer.h"
#include "decode/verify/prompt_hidden.h"
#include "decode/verify/prompt_scores.h"
#include "decode/verify/verify.h"
#include "model/model.h"

namespace ashlar {

class ChainDecoder final : public Decoder {
 public:
  /// Plain decoding. `model` outlives this.
  explicit ChainDecoder(Model& model) : model_(model) {}
  ChainDecoder(Model& model, std::unique_ptr<Proposer> proposer, NgramUse ngrams);
  /// Drafts are n-gram drafts or there are none: spans of at most `width` rows.
  ChainDecoder(Model& model, NgramUse ngrams, int32_t width);

  /// Rows that the logs of recurrent layers' states have where spans are at most `width` rows.
  static int32_t log_rows(int32_t width);

  std::string name() const override;
  StepShape shape(int32_t width) const override;
  int32_t max_width() const override { return max_width_; }
  bool scores_prompts() const override { return true; }
  bool report_hidden(std::span<const int32_t> layers) override;
  HiddenRow hidden_row() const override;
  int32_t vocab() const override { return model_.config().vocab; }
  int32_t max_positions() const override { return model_.max_positions(); }
  void register_state(KvLayout& layout, const StepLimits& limits) override;
  void start(const StepLimits& limits, const KvMemory& kv) override;
  void admit(int32_t slot, Slot& state, std::span<const int32_t> tokens) override;
  void plan(StepPlan& plan) override {
    if (planner_) planner_->plan(plan);
  }
  void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) override;
  void collect(const StepPlan& plan, const StepResult& result) override {
    if (planner_) planner_->collect(plan, result);
  }
  int64_t last_progress_ns() const override { return model_.last_progress_ns(); }
  void check_integrity() const override {
    if (context_) context_->check_integrity();
  }

 private:
  // One span of the plan during a step.
  struct Work {
    int32_t chain = -1;        // index into chains_, or -1: prefill
    bool idle = false;         // the sequence has ended before this step, or waits for a mask
    int32_t first_row = 0;     // in the batch
    int32_t n_rows = 0;        // 0 if it has ended
    int32_t first_scored = 0;  // outputs: first those that score the prompt, then those that yield tokens
    int32_t n_scored = 0;
    int32_t first_output = 0;
    int32_t n_outputs = 0;
    int32_t committed = 0;  // rows that stay in the cache
    StateSpan state;
    int32_t forced = 0;  // drafts that the request's constraint dictated; the first ones
    bool has_branches = false;
    bool scores_failed = false;            // some logits of the prompt are not numbers
    int32_t path[kMaxWidth] = {};          // of a chain: rows whose tokens are certain, from first_row
    const float* draft_q[kMaxWidth] = {};  // of a chain: what its drafts were drawn from (VerifyInput)
  };

  /// Branches of a tree share states that only a chain can make: a recurrent model's drafts are a chain.
  int32_t max_branches() const { return proposer_ && !model_.is_recurrent() ? proposer_->max_branches() : 0; }
  bool drafts() const { return max_width_ > 1; }
  bool adapts_width() const { return proposer_ ? proposer_->adapts_width() : drafts(); }
  AuxHiddenRequest aux_request() const;
  KeysSeen target_keys() const;
  int32_t calibration_context(int32_t rows) const;
  void calibrate(int32_t max_slots);
  int32_t sequences_of(int32_t drafted_rows) const { return (drafted_rows + max_width() - 1) / max_width(); }
  int32_t spare_pages(int32_t max_slots) const;
  int32_t pages_of_block() const { return (max_width() + kPageTokens - 1) / kPageTokens; }
  int64_t time_pass(const int32_t* pages, int32_t rows, int32_t context, bool draft);
  void begin_step(const StepPlan& plan, SlotTable& slots, StepResult& result);
  static ChainSpan make_chain(const Span& span, const Slot& slot);
  void force_drafts(const StepPlan& plan, SlotTable& slots, StepResult& result);
  void share_branches();
  void trim_trees(const RowBudget& budget);
  void fill_batch(const StepPlan& plan, SlotTable& slots);
  void add_tree(const Span& span, Work& work);
  void begin_branch(const ChainSpan& chain, int32_t parent, const int32_t* depth, const int32_t* slot);
  void commit_branches(const StepPlan& plan);
  Tensor forward(const StepPlan& plan);
  void report_hidden(const StepPlan& plan, StepResult& result);
  void score(const StepPlan& plan, SlotTable& slots, Tensor hidden, StepResult& result);
  void sample(const StepPlan& plan, SlotTable& slots, Tensor hidden, StepResult& result);
  void begin_walk(size_t index, int32_t first_output, const StepPlan& plan, SlotTable& slots, StepResult& result);
  void finish_span(size_t index, const StepPlan& plan, SlotTable& slots, StepResult& result);
  void write_backlogs();
  bool writes_context(const Work& work) const;
  bool wants_aux_hidden(const StepPlan& plan) const;
  void write_context(const StepPlan& plan);
  void report(StepResult& result) const;

  Model& model_;
  std::unique_ptr<Proposer> proposer_;  // or null
  NgramUse ngram_use_ = NgramUse::kNever;
  int32_t max_width_ = 1;
  const KvMemory* kv_ = nullptr;
  std::unique_ptr<RowBatch> batch_;
  std::unique_ptr<LogitsBuffer> logits_;
  DeviceArray<int32_t> choices_;       // of rows whose logits nothing else needs
  DeviceArray<int32_t> commit_slots_;  // scratch slots whose K and V become a sequence's own
  std::unique_ptr<PageTables> pages_;
  std::unique_ptr<DraftContext> context_;  // null without proposer
  int32_t page_ends_ = -1;                 // plane of what the context keeps of pages' ends; -1: none
  int32_t scratch_slots_ = 0;              // in the spare pages
  int32_t free_scratch_slot_ = 0;          // of a row in a branch, in the spare pages
  std::unique_ptr<DraftPlanner> planner_;  // null where nothing is ever drafted
  KeysSeen keys_seen_;                     // by the target's rows
  std::vector<ChainSpan> chains_;
  RowSelector selector_;
  std::vector<DraftRows> rows_;  // as chains_
  std::vector<float> chances_;   // of drafts that have rows
  std::vector<Work> work_;
  std::vector<SpanWalk> walks_;  // as the plan's spans
  Verifier verifier_;
  PromptScorer scorer_;
  std::unique_ptr<PromptHidden> hidden_;  // null: no request may ask for hidden states
};

}  // namespace ashlar
