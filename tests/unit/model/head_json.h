// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configurations of drafters with heads, and checkpoints that they fit.

#include <memory>
#include <set>

#include "model/drafters/dflash.h"
#include "unit/model/drafter_json.h"

namespace ashlar::testing {

/// DFlash2 in z-lab's form.
inline Json with_head(const std::string& patch = "{}") {
  Json config = patched(tiny_config(), R"({"num_target_layers":2,"block_size":4,"num_hidden_layers":1,
    "architectures":["DFlash2DraftModel"],"dflash_config":{"mask_token_id":19,"target_layer_ids":[0,1]}})");
  config["dflash_config"] = patched(
      config["dflash_config"], R"({"conv_kernel_size":2,"conv_group_size":4,"selector_rank":3,"selector_top_k":5})");
  config["dflash_config"] = patched(config["dflash_config"], patch);
  return config;
}

/// And in the speculators form.
inline Json speculators(const std::string& patch = "{}") {
  Json root = patched(parse_json(R"({"speculators_model_type":"dflash2","aux_hidden_state_layer_ids":[1,2],
    "mask_token_id":19,"draft_vocab_size":20,"conv_group_size":4})",
                                 "speculators"),
                      patch);
  root["transformer_layer_config"] =
      patched(tiny_config(), R"({"num_hidden_layers":1,"layer_types":["sliding_attention"],"sliding_window":8})");
  return root;
}

/// The same with LiLiCorr's head.
inline Json lilicorr(const std::string& patch = "{}") {
  Json config = with_head();
  config["architectures"] = {"LiLiCorrDraftModel"};
  config["dflash_config"] = patched(parse_json(R"({"mask_token_id":19,"target_layer_ids":[0,1],
    "lilicorr_enabled":true,"lilicorr_candidate_topk":5,"lilicorr_hidden_size":6,"lilicorr_num_layers":2,
    "lilicorr_num_heads":2,"lilicorr_mlp_ratio":1.5,"lilicorr_factor_dim":7,"lilicorr_vector_eps":1e-4,
    "lilicorr_logit_scale":8.0})",
                                               "lilicorr"),
                                    patch);
  return config;
}

/// What a drafter without a head has.
inline Tensors backbone() {
  Tensors result;
  add_random(result, "fc.weight", {8, 16});
  add_random(result, "hidden_norm.weight", {8});
  add_random(result, "norm.weight", {8});
  for (const auto& [name, tensor] : tiny_tensors()) {
    if (name.starts_with("model.layers.0.")) add_random(result, name.substr(6), tensor.shape);
  }
  return result;
}

/// A target, and drafters of it to load: tensors() are those of with_head().
class HeadLoading : public ::testing::Test {
 protected:
  static Tensors tensors() {
    Tensors result = backbone();
    for (const std::string conv : {"layers.0.attention_conv.", "layers.0.mlp_conv."}) {
      add_random(result, conv + "base_kernel", {2, 2, 8});
      add_random(result, conv + "kernel_projection.weight", {8, 8});
    }
    add_random(result, "candidate_selector.hidden_projection.weight", {3, 8});
    add_random(result, "candidate_selector.predecessor_codebook", {20, 3});
    add_random(result, "candidate_selector.successor_codebook", {20, 3});
    return result;
  }
  void load(const Json& config, const Tensors& tensors) {
    const ModelFolder folder(config, tensors);
    DflashDrafter::load(*model_, folder.path());
  }
  /// Loading fails, and says these parts and the folder.
  void refuse(const Json& config, const Tensors& tensors, std::vector<std::string> parts) {
    const ModelFolder folder(config, tensors);
    parts.push_back(folder.path().string());
    expect_error([&] { DflashDrafter::load(*model_, folder.path()); }, parts);
  }
  /// Every tensor of the head must be there, unless it may be missing, and have its shape.
  void refuse_each(const Json& config, const Tensors& whole, const std::set<std::string>& may_be_missing = {}) {
    const Tensors others = backbone();
    for (const auto& [name, tensor] : whole) {
      if (others.contains(name)) continue;
      Tensors broken = whole;
      broken.erase(name);
      if (!may_be_missing.contains(name)) refuse(config, broken, {name});
      std::vector<int64_t> shape = tensor.shape;
      ++shape.back();
      add_random(broken, name, shape);
      refuse(config, broken, {name, "expected"});
      if (shape.size() < 2) continue;
      std::swap(shape[0], shape[1]);
      broken.erase(name);
      add_random(broken, name, shape);
      refuse(config, broken, {name, "expected"});
    }
  }

  ModelFolder target_;
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  std::unique_ptr<Model> model_ = Model::load(*ops_, target_.path());
};

}  // namespace ashlar::testing
