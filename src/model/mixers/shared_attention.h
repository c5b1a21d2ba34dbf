// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention with queries of its own over the keys and values of an earlier layer. Source: Gemma 4 (transformers).

#include "model/mixers/attention.h"

namespace ashlar {

class SharedAttention final : public Mixer {
 public:
  /// Binds layer `layer`, whose tensors' names begin with `base`; weights for keys and values, which some checkpoints
  /// have all the same, are left out. `source`: the layer whose keys and values it reads, of the same shape and rope;
  /// it outlives this, as `ropes` do.
  SharedAttention(WeightBinder& binder, const StackConfig& config, const std::string& base, int32_t layer,
                  const Ropes& ropes, const Attention& source);

  int32_t projected_width() const override { return shape_.q_width(); }
  int32_t mixed_width() const override { return shape_.q_width(); }
  size_t bytes() const override { return queries_->bytes() + output_->bytes(); }
  void register_state(KvLayout&, const std::string&, Ops&) override {}
  void forward(Ops& ops, const MixerCall& call, Tensor x) const override;
  void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const override;
  /// The source has it all.
  void commit(Ops&, const KvMemory&, const BranchTable&, const int32_t*) const override {}

 private:
  /// What rows from `first` on attend to, in their rows of call.workspace.mixed.
  void mix(Ops& ops, const MixerCall& call, int32_t first) const;

  AttentionShape shape_;
  AttentionShape queries_alone_;  // shape_ without keys and values
  float norm_eps_;
  const RopeTable& rope_;
  const Attention& source_;
  DeviceVector q_norm_;
  std::unique_ptr<Weight> queries_, output_;
};

}  // namespace ashlar
