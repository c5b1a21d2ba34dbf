// SPDX-License-Identifier: Apache-2.0
#pragma once
// The attention of an EAGLE-3 layer: queries, keys and values are made of [embedding; feature], each after a norm of
// its own, while the residual stream is the feature. The layer's input norm is the embedding's.

#include <memory>

#include "model/mixers/attention.h"

namespace ashlar {

class Eagle3Attention final : public Mixer {
 public:
  /// `feature_norm`: [hidden]. `pairs`: [max_rows, 2 hidden], whose first half holds the embeddings of a forward's
  /// rows; it outlives the mixer, which norms that half and fills the second. `normed_residual`: the residual is the
  /// feature after its norm.
  Eagle3Attention(std::unique_ptr<Attention> attention, DeviceVector feature_norm, const Tensor& pairs,
                  bool normed_residual)
      : attention_(std::move(attention)),
        feature_norm_(std::move(feature_norm)),
        pairs_(pairs),
        normed_residual_(normed_residual) {}

  int32_t projected_width() const override { return attention_->projected_width(); }
  int32_t mixed_width() const override { return attention_->mixed_width(); }
  size_t bytes() const override { return attention_->bytes(); }
  void register_state(KvLayout& layout, const std::string& name, Ops& ops) override {
    attention_->register_state(layout, name, ops);
  }
  void forward(Ops& ops, const MixerCall& call, Tensor x) const override;
  void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const override;
  void commit(Ops& ops, const KvMemory& memory, const BranchTable& branch, const int32_t* pages) const override {
    attention_->commit(ops, memory, branch, pages);
  }

 private:
  /// The call with the pairs in place of the features; once a forward.
  MixerCall with_pairs(Ops& ops, const MixerCall& call) const;

  std::unique_ptr<Attention> attention_;
  DeviceVector feature_norm_;
  const Tensor& pairs_;
  bool normed_residual_;
};

}  // namespace ashlar
