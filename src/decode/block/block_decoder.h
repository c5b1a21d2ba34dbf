// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decoding for models that denoise blocks: the masked positions of a block are filled over a few passes in the order an
// unmasking algorithm chooses, then the KV of the block is committed: one pass over its final tokens makes its K and V
// final. The KV commit pass shares a pass with the first one over the next block.

#include <memory>
#include <vector>

#include "cache/page_tables.h"
#include "decode/block/algorithms.h"
#include "decode/block/block.h"
#include "decode/block/candidates.h"
#include "decode/decoder.h"
#include "decode/logits.h"
#include "model/model.h"

namespace ashlar {

struct BlockOptions {
  int32_t block_size = 0;  ///< positions of a block; 0: the model's own
  AlgorithmSpec algorithm;
  bool fuses_commit_pass = true;  ///< false: the KV commit pass has a pass of its own (the oracle of the fused order)
};

class BlockDecoder final : public Decoder {
 public:
  /// Throws Error("decode", ...) if the options do not fit the model. `model` outlives this.
  BlockDecoder(Model& model, const BlockOptions& options);

  std::string name() const override { return "block-diffusion"; }
  StepShape shape(int32_t width) const override;
  int32_t max_width() const override { return block_; }
  int32_t block_size() const override { return block_; }
  std::string check(const MethodChoice& choice) const override;
  int32_t vocab() const override { return model_.config().vocab; }
  int32_t max_positions() const override {  // the last block of a whole sequence may be shorter
    return whole_ ? model_.max_positions() : model_.max_positions() / block_ * block_;
  }
  void register_state(KvLayout& layout, const StepLimits&) override { model_.register_state(layout); }
  void start(const StepLimits& limits, const KvMemory& kv) override;
  void admit(int32_t slot, Slot& state, std::span<const int32_t> tokens) override;
  void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) override;
  int64_t last_progress_ns() const override { return model_.last_progress_ns(); }

 private:
  // One span of the plan during a step.
  struct Work {
    Block* block = nullptr;  // null: prefill, or nothing to do
    int32_t n_rows = 0;
    int32_t first_output = 0;
    int32_t n_outputs = 0;
    bool commits = false;    // has the rows of the block before
    bool denoises = false;   // has the rows of the block
    bool verifies = false;   // has its rows with all drafts in place, and those that ask one token at a time
    bool saw_final = false;  // the pass saw the block as it stays
    Positions wanted = 0;    // positions of the block whose rows are outputs, in order
  };

  AlgorithmSpec spec_for(const MethodChoice& choice) const;
  std::unique_ptr<UnmaskAlgorithm> make_fitting_algorithm(const AlgorithmSpec& spec) const;
  CandidateOptions candidate_options(const Block& block) const;
  void fill_batch(const StepPlan& plan, SlotTable& slots, StepResult& result);
  void add_prefill(const Span& span);
  void add_block(const Span& span, const Slot& slot, Work& work);
  void add_verification(const Span& span, Work& work);
  bool force(Block& block, Slot& slot);
  void find_candidates(const StepPlan& plan, SlotTable& slots, Tensor hidden, StepResult& result);
  static void take_statistics(const Work& work, const RowStatistics* row);
  void choose(const StepPlan& plan, SlotTable& slots, StepResult& result, size_t first, size_t last, Tensor logits);
  void ask(size_t span, const Slot& slot, int32_t row);
  Decision decide(Block& block, const Slot& slot) const;
  void unmask(Work& work, Slot& slot, SpanResult& result);
  bool may_pass(Block& block, Slot& slot, SpanResult& result, TokenLogprobs* logprobs);
  void emit(Block& block, Slot& slot, SpanResult& result, TokenLogprobs* logprobs) const;
  void finish(const Work& work, Slot& slot);

  Model& model_;
  const BlockDiffusion diffusion_;
  const bool whole_;  // the model attends to the whole sequence: a pass computes all of it
  const int32_t block_;
  const bool fuses_commit_pass_;
  const AlgorithmSpec algorithm_spec_;
  const std::unique_ptr<UnmaskAlgorithm> algorithm_;  // of requests that choose none
  const KvMemory* kv_ = nullptr;
  std::unique_ptr<RowBatch> batch_;
  std::unique_ptr<LogitsBuffer> logits_;
  std::unique_ptr<PageTables> pages_;
  std::vector<Block> blocks_;                   // per slot
  std::vector<Work> work_;                      // as the plan's spans
  DeviceArray<RowStatistics> statistics_;       // of a chunk of rows
  std::vector<std::vector<uint32_t>> allowed_;  // per span: what its constraint allows
  std::vector<RowRequest> requests_;            // about the logits of a chunk
  struct Asked {
    size_t span;
    int32_t position;  // in its block
  };
  std::vector<Asked> asked_;  // as requests_
  std::vector<RowChoice> choices_;
};

}  // namespace ashlar
