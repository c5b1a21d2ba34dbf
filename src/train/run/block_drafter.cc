// SPDX-License-Identifier: Apache-2.0
#include "train/run/block_drafter.h"

#include "train/export/drafter_folder.h"

namespace ashlar {

TrainShape train_shape(const DflashConfig& drafter) {
  TrainShape shape = shape_of(drafter.stack);
  shape.aux_width = static_cast<int32_t>(drafter.aux_layers.size()) * drafter.target_hidden;
  shape.vocab = drafter.vocab;
  shape.block = drafter.block_size;
  shape.mask_token_id = drafter.mask_id;
  for (const LayerAttention& layer : drafter.stack.layers) shape.sights.push_back({layer.window, layer.causal});
  if (const auto& conv = drafter.stack.block_conv) shape.convolutions = {conv->taps, conv->group};
  if (const auto& selector = drafter.selector) shape.selector = {selector->rank, selector->top_k};
  if (const auto& markov = drafter.markov) shape.markov = {markov->rank, markov->confidence_width};
  return shape;
}

namespace {

/// Of the decay of weights by position in the published recipes of heads whose drafts follow from the one before
/// (DSpark: DeepSpec, speculators); others have 7.
constexpr double kMarkovGamma = 4;

}  // namespace

TrainedDrafter block_drafter(const DflashConfig& drafter) {
  TrainedDrafter out;
  out.summary = drafter.head + ", " + std::to_string(drafter.stack.n_layers) + " layers";
  out.mask_id = drafter.mask_id;
  out.aux_layers = drafter.aux_layers;
  out.shape = train_shape(drafter);
  out.make_network = make_block_network;
  if (drafter.markov) out.gamma = kMarkovGamma;
  out.settings = zlab_config(drafter);
  out.exported = [drafter](DrafterForm form, const Model& target, const TrainShape& /*shape*/) {
    return export_as(form, drafter, target);
  };
  return out;
}

}  // namespace ashlar
