// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configurations of drafters with heads, and checkpoints that they fit.

#include <memory>

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

/// A target, and drafters of it to load: tensors() are those of with_head().
class HeadLoading : public ::testing::Test {
 protected:
  static Tensors tensors() {
    Tensors result;
    add_random(result, "fc.weight", {8, 16});
    add_random(result, "hidden_norm.weight", {8});
    add_random(result, "norm.weight", {8});
    for (const auto& [name, tensor] : tiny_tensors()) {
      if (name.starts_with("model.layers.0.")) add_random(result, name.substr(6), tensor.shape);
    }
    for (const std::string conv : {"layers.0.attention_conv.", "layers.0.mlp_conv."}) {
      add_random(result, conv + "base_kernel", {2, 2, 8});
      add_random(result, conv + "kernel_projection.weight", {8, 8});
    }
    add_random(result, "candidate_selector.hidden_projection.weight", {3, 8});
    add_random(result, "candidate_selector.predecessor_codebook", {20, 3});
    add_random(result, "candidate_selector.successor_codebook", {20, 3});
    return result;
  }
  /// Those of a drafter whose head has none.
  static Tensors backbone() {
    Tensors result;
    for (const auto& [name, tensor] : tensors()) {
      if (name.find("conv") == std::string::npos && name.find("selector") == std::string::npos) result[name] = tensor;
    }
    return result;
  }
  void load(const Json& config, const Tensors& tensors) {
    const ModelFolder folder(config, tensors);
    DflashDrafter::load(*model_, folder.path());
  }
  void refuse(const Tensors& tensors, std::vector<std::string> parts) {
    const ModelFolder folder(with_head(), tensors);
    parts.push_back(folder.path().string());
    expect_error([&] { DflashDrafter::load(*model_, folder.path()); }, parts);
  }

  ModelFolder target_;
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  std::unique_ptr<Model> model_ = Model::load(*ops_, target_.path());
};

}  // namespace ashlar::testing
