// SPDX-License-Identifier: Apache-2.0
#pragma once
// The EAGLE-3 drafter: a layer that reads the target's hidden states after three of its layers, joined by fc, next to
// the embedding of the token after them; plain layers may follow. P-EAGLE is the same with a mask, whose feature is
// learnt, at positions that are drafted in the same pass. Sources: Li et al. 2025 (arXiv 2503.01840); the forms of
// SpecForge and of vLLM's speculators, and for the mask the latter's and vLLM.

#include <memory>

#include "model/drafters/draft_head.h"
#include "model/drafters/eagle3_config.h"
#include "model/model.h"

namespace ashlar {

class Eagle3Head final : public DraftHead {
 public:
  /// Loads the folder and checks that it fits `target`, which must outlive this.
  static std::unique_ptr<Eagle3Head> load(const Model& target, const std::filesystem::path& folder);
  /// The weights of `config.folder` as `config` says.
  static std::unique_ptr<Eagle3Head> load(const Model& target, Eagle3Config config);
  /// The same of the checkpoint given, of a configuration that fits the target.
  static std::unique_ptr<Eagle3Head> load(const Model& target, Eagle3Config config, const Checkpoint& checkpoint);

  std::span<const AuxLayer> aux_layers() const override { return aux_layers_; }
  int32_t aux_width() const override { return config_.aux_width(); }
  int32_t feature_width() const override { return config_.stack.hidden; }
  int32_t vocab() const override { return config_.vocab; }
  int32_t draft_vocab() const override { return config_.draft_vocab; }
  const int32_t* id_map() const override { return id_map_.empty() ? nullptr : id_map_.data(); }
  int32_t mask_id() const override { return config_.mask_id; }
  Tensor mask_feature() const override { return mask_feature_; }
  void register_state(KvLayout& layout) override { stack_.register_state(layout, "drafter", ops_); }
  void reserve(int32_t max_rows) override;
  Tensor features(Tensor aux_hidden) override;
  Output forward(Tensor features, const RowBatch& batch, const KvMemory& kv) override;
  void head(Tensor hidden, Tensor out) const override;
  void head_argmax(Tensor hidden, int32_t* entries) const override;
  size_t bytes_read() const override;

 private:
  Eagle3Head(const Model& target, Eagle3Config config, WeightBinder& binder);
  void bind_vocabulary(WeightBinder& binder);
  void make_mask_feature();
  const Weight& embedding() const { return own_embedding_ ? *own_embedding_ : target_.embedding(); }
  const Weight& head_weight() const;

  Ops& ops_;
  const Model& target_;
  Eagle3Config config_;
  std::string prefix_;                   // of all names
  std::unique_ptr<Weight> projection_;   // fc: [hidden, aux layers * target_hidden]
  std::vector<DeviceVector> aux_norms_;  // before fc: none, one of all columns, or one a layer
  std::vector<float> mask_hidden_;       // [aux_width], with a mask
  DeviceVector norm_;
  Ropes ropes_;
  Tensor pairs_;  // [max_rows, 2 hidden]; the first layer reads it
  LayerStack stack_;
  std::unique_ptr<Weight> own_embedding_, own_head_;
  std::unique_ptr<Weight> quantised_head_;  // the target's head in 8 bits, without one of its own
  std::vector<int32_t> id_map_;
  std::vector<AuxLayer> aux_layers_;
  std::unique_ptr<StackWorkspace> workspace_;
  std::unique_ptr<Buffer> storage_;
  std::unique_ptr<Buffer> mask_storage_;
  Tensor mask_feature_;  // [1, hidden], with a mask
  Tensor features_;      // [max_rows, hidden]
  Tensor normed_;        // [max_rows, aux_width], where there are norms before fc
};

}  // namespace ashlar
