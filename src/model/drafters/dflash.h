// SPDX-License-Identifier: Apache-2.0
#pragma once
// The DFlash drafter: a few layers that read the target's hidden states from their own KV cache and fill a block of
// mask tokens in one pass. Source: z-lab/dflash; the speculators form of vLLM.

#include <memory>

#include "model/drafters/dflash_config.h"
#include "model/drafters/heads/block_refiner.h"
#include "model/drafters/heads/candidate_head.h"
#include "model/drafters/heads/confidence_head.h"
#include "model/drafters/heads/in_turn_head.h"
#include "model/mixers/attention.h"
#include "model/model.h"

namespace ashlar {

class DflashDrafter {
 public:
  /// Loads the folder and checks that it fits `target`, which must outlive this.
  static std::unique_ptr<DflashDrafter> load(const Model& target, const std::filesystem::path& folder);
  /// The same by a configuration that may differ from what its folder says.
  static std::unique_ptr<DflashDrafter> load(const Model& target, DflashConfig config);
  /// The same of tensors that a checkpoint of the folder's holds, or makes.
  static std::unique_ptr<DflashDrafter> load(const Model& target, DflashConfig config, const Checkpoint& checkpoint);

  const DflashConfig& config() const { return config_; }
  /// Auxiliary hidden states to ask of the target's forward, ascending by layer.
  std::span<const AuxLayer> aux_layers() const { return aux_layers_; }
  int32_t aux_width() const { return static_cast<int32_t>(config_.aux_layers.size()) * config_.target_hidden; }

  void register_state(KvLayout& layout) { stack_.register_state(layout, "drafter", ops_); }
  /// Activations for up to `max_context_rows` context rows and `max_block_rows` block rows a call.
  void reserve(int32_t max_context_rows, int32_t max_block_rows);

  /// Writes the context K and V of all layers for committed rows: aux_hidden [n, aux_width], one row per row of `rows`.
  void write_context(Tensor aux_hidden, const Rows& rows, const KvMemory& kv);

  /// The features themselves, c = RMSNorm(fc * aux_hidden): [n, hidden], valid until the next write_context.
  Tensor features(Tensor aux_hidden);

  /// Runs block rows; returns final hidden states of the wanted rows, [n_outputs, hidden], valid until the next call.
  Tensor forward(const RowBatch& batch, const KvMemory& kv);

  /// Logits over the draft vocabulary: [rows, draft_vocab].
  void head(Tensor hidden, Tensor out) const;
  /// The entry of the draft vocabulary with the highest logit, for each row.
  void head_argmax(Tensor hidden, int32_t* entries) const;

  /// Chooses among the likeliest tokens of each position, by the one before it; null: the drafter has none. Its rows
  /// are those that forward() returns, its logits those of head().
  CandidateHead* selector() { return selector_.get(); }

  /// Adds to logits what the tokens before each position say; null: the drafter has none. The same rows.
  InTurnHead* in_turn() { return in_turn_.get(); }
  /// The same for all positions together, in rounds; null: the drafter has none. Its rows are all of a block's.
  BlockRefiner* refiner() { return refiner_.get(); }
  /// How likely each draft is to be accepted if those before it are, by codes(); null: the drafter does not say. The
  /// same rows.
  ConfidenceHead* confidence() { return confidence_.get(); }
  const Weight& codes() const { return *codes_; }

  /// Target id of each draft-vocabulary entry, or null if they are the same.
  const int32_t* id_map() const { return id_map_.empty() ? nullptr : id_map_.data(); }
  size_t bytes_read() const;  ///< weights that a draft pass, its head and the context of its rows read

 private:
  DflashDrafter(const Model& target, DflashConfig config, WeightBinder& binder);
  void bind_vocabulary(WeightBinder& binder);
  void bind_selector(WeightBinder& binder);
  void bind_markov(WeightBinder& binder);
  /// What tokens of a block are embedded by.
  const Weight& embedding() const { return own_embedding_ ? *own_embedding_ : target_.embedding(); }
  const Weight& head_weight() const;
  /// Whether the own embedding is the head as well.
  bool is_tied() const { return own_embedding_ && !own_head_; }

  Ops& ops_;
  const Model& target_;
  DflashConfig config_;
  std::unique_ptr<Weight> feature_projection_;  // fc: [hidden, aux layers * target_hidden]
  DeviceVector feature_norm_;
  std::unique_ptr<Weight> context_kv_;  // all layers' k_proj and v_proj stacked: [layers * 2 * kv_width, hidden]
  DeviceVector norm_;
  Ropes ropes_;
  std::vector<const Attention*> attention_;  // of each layer, which the stack owns
  LayerStack stack_;
  std::unique_ptr<Weight> own_embedding_, own_head_;
  /// The target's head in 8 bits, for a drafter without its own; null where the device does not gain by that.
  std::unique_ptr<Weight> quantised_head_;
  std::unique_ptr<CandidateHead> selector_;
  std::unique_ptr<InTurnHead> in_turn_;
  std::unique_ptr<BlockRefiner> refiner_;
  const Weight* codes_ = nullptr;  // of in_turn_, where there is a confidence head
  std::unique_ptr<ConfidenceHead> confidence_;
  std::vector<int32_t> id_map_;
  std::vector<AuxLayer> aux_layers_;
  std::unique_ptr<StackWorkspace> workspace_;
  std::unique_ptr<Buffer> context_storage_;
  Tensor features_;   // [max_context_rows, hidden]
  Tensor projected_;  // [max_context_rows, layers * 2 * kv_width]
};

}  // namespace ashlar
