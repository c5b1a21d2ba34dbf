// SPDX-License-Identifier: Apache-2.0
#pragma once
// A gated short convolution: a recurrent layer, whose state is what the last few rows put into it
// (device/short_conv.h).

#include "model/config.h"
#include "model/mixers/recurrent_mixer.h"

namespace ashlar {

class GatedShortConv final : public RecurrentMixer {
 public:
  /// Binds the layer whose tensors' names begin with `base`.
  GatedShortConv(WeightBinder& binder, const StackConfig& config, const std::string& base);

 private:
  void step(Ops& ops, Tensor projected, const Rows& rows, const StatePlane& states, Tensor mixed) const override;

  ShortConvShape shape_;
  DeviceVector taps_, bias_;  // bias: none where there is none
};

}  // namespace ashlar
