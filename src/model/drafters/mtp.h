// SPDX-License-Identifier: Apache-2.0
#pragma once
// The layer that a checkpoint brings to predict further tokens (multi-token prediction), used to draft: one attention
// layer over [norm of the embedding of a token; norm of the hidden state before it], with the model's own embedding and
// head. Sources: Qwen3.5 as vLLM and SGLang run it (qwen3_5_mtp); DeepSeek-V3, arXiv 2412.19437, and GLM-4.5, as
// transformers runs them (MtpModel): what the layer leaves is normed before the head and before the next token's row.

#include <memory>
#include <string>

#include "model/drafters/draft_head.h"
#include "model/model.h"

namespace ashlar {

/// The layer as a stack: the attention, the MLP and the norms are those of the model's own layers. Throws
/// Error("drafter", ...) if the configuration says what is not supported.
StackConfig mtp_stack(const ModelConfig& target);

/// Throws Error("drafter", ...) if `drafter`, a model's folder, is not the target's.
void check_own_layer(const std::filesystem::path& drafter, const ModelConfig& target);

/// Whether the checkpoint holds every part of the layer that each model of the kind has.
bool has_mtp(const ModelConfig& target, const Checkpoint& checkpoint);
/// The same of a folder or GGUF file, which is a model's.
bool has_mtp(const std::filesystem::path& model);
/// Whether the folder, or GGUF file, is a model of a family whose checkpoints may have the layer.
bool is_model_of_mtp_family(const std::filesystem::path& folder);

class MtpHead final : public DraftHead {
 public:
  /// Of the target's own checkpoint. `target` must outlive this. Throws Error naming what is missing.
  static std::unique_ptr<MtpHead> load(const Model& target);
  /// The same of the checkpoint given.
  static std::unique_ptr<MtpHead> load(const Model& target, const Checkpoint& checkpoint);
  /// Of a folder of its own (mtp_config.h), for whichever target it was made. Throws the same.
  static std::unique_ptr<MtpHead> load(const Model& target, const std::filesystem::path& folder);

  std::span<const AuxLayer> aux_layers() const override { return {&aux_layer_, 1}; }
  int32_t aux_width() const override { return config_.hidden; }
  int32_t feature_width() const override { return config_.hidden; }
  int32_t vocab() const override { return target_.config().vocab; }
  int32_t draft_vocab() const override { return vocab(); }
  const int32_t* id_map() const override { return nullptr; }
  void register_state(KvLayout& layout) override { stack_.register_state(layout, "drafter", ops_); }
  void reserve(int32_t max_rows) override;
  Tensor features(Tensor aux_hidden) override;
  Output forward(Tensor features, const RowBatch& batch, const KvMemory& kv) override;
  void head(Tensor hidden, Tensor out) const override;
  void head_argmax(Tensor hidden, int32_t* entries) const override;
  size_t bytes_read() const override;

  /// The target's, unless the layer has others; of the head perhaps fewer bits.
  const Weight& embedding() const { return own_embedding_ ? *own_embedding_ : target_.embedding(); }
  const Weight& head_weight() const { return quantised_head_ ? *quantised_head_ : exact_head(); }

 private:
  /// `prefix`, then `names`: of its tensors.
  MtpHead(const Model& target, StackConfig config, std::string prefix, const MtpNames& names, WeightBinder& binder,
          const Checkpoint& checkpoint);
  const Weight& exact_head() const { return own_head_ ? *own_head_ : target_.head_weight(); }

  Ops& ops_;
  const Model& target_;
  StackConfig config_;
  std::string prefix_;
  MtpNames names_;  // after the prefix
  DeviceVector embedding_norm_, hidden_norm_, norm_;
  std::unique_ptr<Weight> projection_;  // [hidden, 2 hidden]
  /// Null: the target's, of which some checkpoints store a copy.
  std::unique_ptr<Weight> own_embedding_, own_head_;
  Ropes ropes_;
  LayerStack stack_;
  /// The head in 8 bits; null where the device does not gain by that.
  std::unique_ptr<Weight> quantised_head_;
  AuxLayer aux_layer_;
  std::unique_ptr<StackWorkspace> workspace_;
  std::unique_ptr<Buffer> storage_;
  Tensor pairs_;     // [max_rows, 2 hidden]
  Tensor features_;  // [max_rows, hidden]
};

}  // namespace ashlar
