// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/drafter_repairs.h"

#include <algorithm>
#include <utility>

namespace ashlar {
namespace {

constexpr double kUsualThetas[] = {10000, 1000000, 10000000};

template <class Config>
class Repairs {
 public:
  Repairs(const Config& config, const ModelConfig& target) : config_(config), target_(target) {}

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
  void mask(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) {
      if (token == config_.mask_id || token < 0 || token >= config_.vocab) continue;
      add("mask_token_id", std::to_string(token)).config.mask_id = token;
    }
  }
  void rope() {
    for (const LayerAttention& layer : target_.stack.layers) {
      // Factors are one for each frequency of the target's heads.
      if (!layer.rope.factors.empty() && layer.shape.head_dim != config_.stack.layers.front().shape.head_dim) continue;
      rotate(layer.rope,
             "as the target's, " + std::to_string(static_cast<int64_t>(layer.rope.theta)) + " with its rope_scaling");
    }
    for (const double theta : kUsualThetas) {
      RopeConfig plain;
      plain.theta = theta;
      plain.partial_rotary_factor = config_.stack.layers.front().rope.partial_rotary_factor;
      rotate(plain, std::to_string(static_cast<int64_t>(theta)) + " without rope_scaling");
    }
  }
  /// The other value of a switch.
  void toggle(const char* setting, bool Config::*member) {
    const bool other = !(config_.*member);
    add(setting, other ? "true" : "false").config.*member = other;
  }
  void visibility() {
    const bool causal = !config_.stack.layers.front().causal;
    auto& repair = add("is_causal", causal ? "true" : "false");
    for (LayerAttention& layer : repair.config.stack.layers) layer.causal = causal;
  }
  std::vector<ConfigRepair<Config>> take() { return std::move(repairs_); }

 private:
  ConfigRepair<Config>& add(const std::string& setting, const std::string& value) {
    return repairs_.emplace_back(ConfigRepair<Config>{setting, setting + " " + value, config_});
  }
  // Said as the file would have to say it.
  void read_layers(const std::vector<int32_t>& layers, const std::string& how) {
    const auto exists = [&](int32_t layer) { return layer >= 0 && layer < target_.stack.n_layers; };
    if (layers == config_.aux_layers || !std::all_of(layers.begin(), layers.end(), exists)) return;
    std::string ids;
    for (const int32_t layer : layers) ids += (ids.empty() ? "" : ", ") + std::to_string(layer + config_.ids.first);
    add(config_.ids.key, how + ", [" + ids + "]").config.aux_layers = layers;
  }
  void rotate(const RopeConfig& rope, const std::string& value) {
    const auto rotates_so = [&](const LayerAttention& layer) { return layer.rope == rope; };
    const auto same = [&](const auto& repair) { return rotates_so(repair.config.stack.layers.front()); };
    const auto& layers = config_.stack.layers;
    if (std::all_of(layers.begin(), layers.end(), rotates_so)) return;
    if (std::any_of(repairs_.begin(), repairs_.end(), same)) return;
    auto& repair = add("rope_theta", value);
    for (LayerAttention& layer : repair.config.stack.layers) layer.rope = rope;
  }

  const Config& config_;
  const ModelConfig& target_;
  std::vector<ConfigRepair<Config>> repairs_;
};

}  // namespace

std::vector<ConfigRepair<DflashConfig>> usual_repairs(const DflashConfig& config, const ModelConfig& target,
                                                      std::span<const int32_t> mask_tokens) {
  Repairs<DflashConfig> repairs(config, target);
  repairs.layers();
  // A lattice has places for one convention only.
  if (!config.lattice) repairs.toggle("sample_from_anchor", &DflashConfig::sample_from_anchor);
  repairs.mask(mask_tokens);
  repairs.rope();
  repairs.visibility();
  return repairs.take();
}

std::vector<ConfigRepair<Eagle3Config>> usual_repairs(const Eagle3Config& config, const ModelConfig& target,
                                                      std::span<const int32_t> mask_tokens) {
  Repairs<Eagle3Config> repairs(config, target);
  repairs.layers();
  repairs.toggle("norm_before_residual", &Eagle3Config::normed_residual);
  repairs.toggle("norm_output", &Eagle3Config::normed_output);
  if (config.mask_id >= 0) repairs.mask(mask_tokens);
  repairs.rope();
  return repairs.take();
}

}  // namespace ashlar
