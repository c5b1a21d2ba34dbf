// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/short_conv.h"

#include "model/mixers/conv_taps.h"

namespace ashlar {
namespace {

const ShortConvShape& conv_shape(const StackConfig& config) { return config.short_conv->shape; }

}  // namespace

GatedShortConv::GatedShortConv(WeightBinder& binder, const StackConfig& config, const std::string& base)
    : RecurrentMixer({conv_shape(config).projected_width(), conv_shape(config).channels,
                      conv_shape(config).state_floats(), conv_shape(config).log_floats()}),
      shape_(conv_shape(config)) {
  const LayerNames& names = config.names;
  const bool bias = config.short_conv->bias;
  taps_ = {binder.ops(), read_taps(binder, base + names.conv_taps + ".weight", shape_.channels, shape_.taps)};
  if (bias) bias_ = binder.device_vector(base + names.conv_taps + ".bias", shape_.channels);
  bind(binder.linear({{base + names.conv_input, shape_.projected_width()}}, config.hidden, bias),
       binder.linear({{base + names.conv_output, config.hidden}}, shape_.channels, bias));
}

void GatedShortConv::step(Ops& ops, Tensor projected, const Rows& rows, const StatePlane& states, Tensor mixed) const {
  ops.short_conv(projected, {shape_, taps_.data(), bias_.data(), rows, states}, mixed);
}

}  // namespace ashlar
