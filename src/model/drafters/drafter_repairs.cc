// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/dflash_repairs.h"

#include <algorithm>

namespace ashlar {
namespace {

constexpr double kUsualThetas[] = {10000, 1000000, 10000000};

std::string list(std::span<const int32_t> numbers) {
  std::string text;
  for (const int32_t number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

class Repairs {
 public:
  Repairs(const DflashConfig& config, const ModelConfig& target) : config_(config), target_(target) {}

  void layers() {
    std::vector<int32_t> ascending = config_.aux_layers;
    std::sort(ascending.begin(), ascending.end());
    read_layers(ascending, "in ascending order");
    for (const auto& [step, how] : {std::pair{-1, "one lower"}, {1, "one higher"}}) {
      std::vector<int32_t> moved = config_.aux_layers;
      for (int32_t& layer : moved) layer += step;
      read_layers(moved, how);
    }
  }
  void slots() {
    if (config_.lattice) return;  // which has places for one convention only
    DflashRepair& repair = add(std::string("sample_from_anchor ") + (config_.sample_from_anchor ? "false" : "true"));
    repair.config.sample_from_anchor = !config_.sample_from_anchor;
  }
  void mask(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) {
      if (token == config_.mask_id || token < 0 || token >= config_.vocab) continue;
      add("mask_token_id " + std::to_string(token)).config.mask_id = token;
    }
  }
  void rope() {
    for (const LayerAttention& layer : target_.stack.layers) {
      // Factors are one for each frequency of the target's heads.
      if (!layer.rope.factors.empty() && layer.shape.head_dim != config_.stack.layers.front().shape.head_dim) continue;
      rotate(layer.rope, "the target's rope_theta, " + std::to_string(static_cast<int64_t>(layer.rope.theta)) +
                             ", and its rope_scaling");
    }
    for (const double theta : kUsualThetas) {
      RopeConfig plain;
      plain.theta = theta;
      plain.partial_rotary_factor = config_.stack.layers.front().rope.partial_rotary_factor;
      rotate(plain, "rope_theta " + std::to_string(static_cast<int64_t>(theta)) + " without rope_scaling");
    }
  }
  void visibility() {
    const bool causal = !config_.stack.layers.front().causal;
    DflashRepair& repair = add(std::string("is_causal ") + (causal ? "true" : "false"));
    for (LayerAttention& layer : repair.config.stack.layers) layer.causal = causal;
  }
  std::vector<DflashRepair> take() { return std::move(repairs_); }

 private:
  DflashRepair& add(std::string what) { return repairs_.emplace_back(DflashRepair{std::move(what), config_}); }

  void read_layers(const std::vector<int32_t>& layers, const std::string& how) {
    const auto exists = [&](int32_t layer) { return layer >= 0 && layer < target_.stack.n_layers; };
    if (layers == config_.aux_layers || !std::all_of(layers.begin(), layers.end(), exists)) return;
    add("target_layer_ids " + how + ", " + list(layers)).config.aux_layers = layers;
  }
  void rotate(const RopeConfig& rope, const std::string& what) {
    const auto rotates_so = [&](const LayerAttention& layer) { return layer.rope == rope; };
    const auto same = [&](const DflashRepair& repair) { return rotates_so(repair.config.stack.layers.front()); };
    const auto& layers = config_.stack.layers;
    if (std::all_of(layers.begin(), layers.end(), rotates_so)) return;
    if (std::any_of(repairs_.begin(), repairs_.end(), same)) return;
    DflashRepair& repair = add(what);
    for (LayerAttention& layer : repair.config.stack.layers) layer.rope = rope;
  }

  const DflashConfig& config_;
  const ModelConfig& target_;
  std::vector<DflashRepair> repairs_;
};

}  // namespace

std::vector<DflashRepair> usual_repairs(const DflashConfig& config, const ModelConfig& target,
                                        std::span<const int32_t> mask_tokens) {
  Repairs repairs(config, target);
  repairs.layers();
  repairs.slots();
  repairs.mask(mask_tokens);
  repairs.rope();
  repairs.visibility();
  return repairs.take();
}

}  // namespace ashlar
