#pragma once
// A gated delta net: a recurrent layer, whose state is a matrix for each value head (device/delta_net.h).

#include "model/binding/weight_binder.h"
#include "model/config.h"
#include "model/mixers/mixer.h"

namespace ashlar {

class GatedDeltaNet final : public Mixer {
 public:
  /// Binds the layer whose tensors' names begin with `base`.
  GatedDeltaNet(WeightBinder& binder, const StackConfig& config, const std::string& base);

  int32_t projected_width() const override { return shape_.projected_width(); }
  int32_t mixed_width() const override { return shape_.v_width(); }
  size_t bytes() const override { return in_->bytes() + output_->bytes(); }
  bool is_recurrent() const override { return true; }
  void register_state(KvLayout& layout, const std::string& name, Ops& ops) override;
  void forward(Ops& ops, const MixerCall& call, Tensor x) const override;
  void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const override;
  /// Drafts over a recurrent layer are a chain: there is nothing to copy.
  void commit(Ops&, const KvMemory&, const BranchTable&, const int32_t*) const override {}

 private:
  Tensor mix(Ops& ops, const MixerCall& call) const;

  DeltaShape shape_;
  float norm_eps_;
  DeviceVector taps_, decay_, bias_, norm_;
  std::unique_ptr<Weight> in_, output_;
  int32_t state_ = -1;
};

}  // namespace ashlar
