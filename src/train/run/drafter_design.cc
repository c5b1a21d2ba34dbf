// SPDX-License-Identifier: Apache-2.0
#include "train/run/drafter_design.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "decode/step.h"
#include "model/drafters/head_config.h"
#include "text/tokenizer/model_tokens.h"

namespace ashlar {
namespace {

constexpr int32_t kDeepest = 5;
constexpr int32_t kLayersEach = 6;     // of the target, for one of the drafter
constexpr int32_t kMlpOfMixtures = 3;  // times the hidden size

[[noreturn]] void fail_design(const std::string& what) { throw Error("train", what); }

}  // namespace

int32_t default_drafter_layers(int32_t target_layers) { return std::clamp(target_layers / kLayersEach, 1, kDeepest); }

std::vector<int32_t> default_aux_layers(int32_t target_layers, int32_t n) {
  if (target_layers < 5) return {std::max(0, target_layers - 2)};
  std::vector<int32_t> layers;
  for (int32_t i = 0; i < n; ++i) {
    const double at = n == 1 ? target_layers / 2 : 1.0 + static_cast<double>(i) * (target_layers - 4) / (n - 1);
    const auto layer = static_cast<int32_t>(std::nearbyint(at));  // half to even
    if (layers.empty() || layers.back() != layer) layers.push_back(layer);
  }
  return layers;
}

int32_t find_mask_token(const Tokenizer& tokenizer, int32_t vocab, const std::vector<int32_t>& stop_ids) {
  const std::vector<int32_t> tokens = mask_tokens(tokenizer, vocab, stop_ids);
  if (!tokens.empty()) return tokens.front();
  fail_design("the tokenizer has no token for masked positions; name one that no text becomes with --mask-token");
}

DflashConfig design_drafter(const ModelConfig& target, const DrafterWishes& wishes, int32_t mask_id) {
  if (target.diffusion) {
    fail_design(target.folder.string() + ": fills masked blocks by itself; a drafter is for models that predict the " +
                "next token");
  }
  if (wishes.block_size < 2 || wishes.block_size > kMaxWidth) {
    fail_design("--block-size is " + std::to_string(wishes.block_size) + "; expected 2 to " +
                std::to_string(kMaxWidth));
  }
  if (mask_id < 0 || mask_id >= target.vocab) {
    fail_design("--mask-token is " + std::to_string(mask_id) + "; the model has " + std::to_string(target.vocab) +
                " tokens");
  }
  if (wishes.window != 0 && wishes.window < wishes.block_size) {
    fail_design("--sliding-window is " + std::to_string(wishes.window) + "; expected at least a block, " +
                std::to_string(wishes.block_size));
  }
  const StackConfig& stack = target.stack;
  DflashConfig config;
  config.folder = "the drafter";
  config.block_size = wishes.block_size;
  config.aux_layers = wishes.aux_layers.empty() ? default_aux_layers(stack.n_layers) : wishes.aux_layers;
  for (const int32_t layer : config.aux_layers) {
    if (layer >= 0 && layer < stack.n_layers) continue;
    fail_design("--aux-layers names layer " + std::to_string(layer) + "; " + target.folder.string() +
                " has layers 0 to " + std::to_string(stack.n_layers - 1));
  }
  config.target_layers = stack.n_layers;
  config.target_hidden = stack.hidden;
  config.vocab = config.draft_vocab = target.vocab;
  config.mask_id = mask_id;
  config.max_positions = target.max_positions;
  config.stack.hidden = stack.hidden;
  config.stack.intermediate = stack.moe ? kMlpOfMixtures * stack.hidden : stack.intermediate;
  config.stack.n_layers = wishes.layers > 0 ? wishes.layers : default_drafter_layers(stack.n_layers);
  config.stack.norm_eps = stack.norm_eps;
  config.stack.qk_norm = true;
  LayerAttention layer;
  layer.shape = stack.layers.front().shape;
  layer.shape.scale = 1.0F / std::sqrt(static_cast<float>(layer.shape.head_dim));
  layer.rope.theta = stack.layers.front().rope.theta;
  layer.causal = false;
  layer.window = wishes.window;
  config.stack.layers.assign(static_cast<size_t>(config.stack.n_layers), layer);
  return config;
}

void check_trainable(const DflashConfig& drafter) {
  const auto fail = [&](const std::string& what) {
    fail_design(drafter.folder.string() + ": " + what +
                ", which is not trained here; expected a drafter without it, with the target's vocabulary");
  };
  const std::vector<std::string> heads = designed_heads();
  if (std::ranges::find(heads, drafter.head) == heads.end()) fail("has the head '" + drafter.head + "'");
  if (drafter.markov && drafter.markov->gated) fail("has a gate on what the token before a position adds");
  if (drafter.own_vocabulary) fail("has a vocabulary of its own");
  if (drafter.sample_from_anchor) fail("has sample_from_anchor: each slot predicts the next position");
  if (drafter.embedding_scale != 1.0F || drafter.output_multiplier != 1.0F || drafter.softcap != 0.0F) {
    fail("scales its embeddings or logits");
  }
  if (drafter.stack.qkv_bias || drafter.stack.output_bias || drafter.stack.mlp_bias) fail("has biases");
  if (drafter.stack.moe) fail("has a mixture of experts");
  for (const LayerAttention& layer : drafter.stack.layers) {
    if (layer.window > 0 && layer.window < drafter.block_size) fail("has a window that is less than its block");
    if (layer.rope.scaling != RopeConfig::Scaling::kNone || layer.rope.partial_rotary_factor != 1.0) {
      fail("scales its rope");
    }
    LayerAttention other = drafter.stack.layers.front();
    other.window = layer.window;
    other.causal = layer.causal;
    if (layer != other) fail("has layers that differ in more than what they see");
  }
}

}  // namespace ashlar
