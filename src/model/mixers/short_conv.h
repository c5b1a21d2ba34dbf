#pragma once
// A gated short convolution: a recurrent layer, whose state is what the last few rows put into it
// (device/short_conv.h).

#include "model/binding/weight_binder.h"
#include "model/config.h"
#include "model/mixers/mixer.h"

namespace ashlar {

class GatedShortConv final : public Mixer {
 public:
  /// Binds the layer whose tensors' names begin with `base`.
  GatedShortConv(WeightBinder& binder, const StackConfig& config, const std::string& base);

  int32_t projected_width() const override { return shape_.projected_width(); }
  int32_t mixed_width() const override { return shape_.channels; }
  size_t bytes() const override { return in_->bytes() + output_->bytes(); }
  bool is_recurrent() const override { return true; }
  void register_state(KvLayout& layout, const std::string& name, Ops& ops) override;
  void forward(Ops& ops, const MixerCall& call, Tensor x) const override;
  void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const override;
  /// Drafts over a recurrent layer are a chain: there is nothing to copy.
  void commit(Ops&, const KvMemory&, const BranchTable&, const int32_t*) const override {}

 private:
  Tensor mix(Ops& ops, const MixerCall& call) const;

  ShortConvShape shape_;
  DeviceVector taps_, bias_;  // bias: none where there is none
  std::unique_ptr<Weight> in_, output_;
  int32_t state_ = -1;
};

}  // namespace ashlar
