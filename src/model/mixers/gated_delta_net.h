// SPDX-License-Identifier: Apache-2.0
#pragma once
// A gated delta net: a recurrent layer, whose state is a matrix for each value head (device/delta_net.h).

#include "model/config.h"
#include "model/mixers/recurrent_mixer.h"

namespace ashlar {

class GatedDeltaNet final : public RecurrentMixer {
 public:
  /// Binds the layer whose tensors' names begin with `base`.
  GatedDeltaNet(WeightBinder& binder, const StackConfig& config, const std::string& base);

 private:
  void step(Ops& ops, Tensor projected, const Rows& rows, const StatePlane& states, Tensor mixed) const override;

  DeltaShape shape_;
  float norm_eps_;
  DeviceVector taps_, decay_, bias_, norm_;
};

}  // namespace ashlar
