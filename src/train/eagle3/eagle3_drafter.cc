// SPDX-License-Identifier: Apache-2.0
#include "train/eagle3/eagle3_drafter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "model/drafters/draft_vocabulary.h"
#include "train/export/drafter_folder.h"
#include "train/run/drafter_design.h"

namespace ashlar {
namespace {

constexpr int32_t kAuxLayers = 3;
constexpr double kDecay = 0.8;  // of a step's weight to the one before, as the method's authors have it

// As fit_to_target() has them where a file does not say; of shallow targets three in the middle, since other engines
// read heads of three alone.
std::vector<int32_t> usual_layers(int32_t target_layers) {
  if (target_layers > 2 * kAuxLayers) return {1, target_layers / 2 - 1, target_layers - 4};
  if (target_layers < kAuxLayers) return default_aux_layers(target_layers, kAuxLayers);
  const int32_t first = (target_layers - kAuxLayers) / 2;
  return {first, first + 1, first + 2};
}

}  // namespace

Eagle3Config design_eagle3(const ModelConfig& target, const DrafterWishes& wishes) {
  DrafterWishes all = wishes;
  all.layers = 1;
  if (all.aux_layers.empty()) all.aux_layers = usual_layers(target.stack.n_layers);
  const DflashConfig design = design_drafter(target, all, 0);  // which has no masked position
  Eagle3Config head;
  head.folder = design.folder;
  head.stack = design.stack;
  head.stack.qk_norm = false;
  for (LayerAttention& layer : head.stack.layers) layer.causal = true;
  head.aux_layers = design.aux_layers;
  head.target_hidden = design.target_hidden;
  head.vocab = head.draft_vocab = design.vocab;
  if (wishes.draft_vocab > head.vocab) {
    throw Error("train", "--draft-vocabulary is " + std::to_string(wishes.draft_vocab) + "; the model has " +
                             std::to_string(head.vocab) + " tokens");
  }
  if (wishes.draft_vocab > 0) head.draft_vocab = wishes.draft_vocab;
  head.max_positions = design.max_positions;
  head.block_size = design.block_size;
  return head;
}

void check_trainable(const Eagle3Config& head) {
  const auto fail = [&](const std::string& what) {
    throw Error("train", head.folder.string() + ": " + what +
                             ", which is not trained here; expected an EAGLE-3 head of one layer, as SpecForge has "
                             "them");
  };
  const StackConfig& stack = head.stack;
  if (stack.n_layers != 1) fail("has " + std::to_string(stack.n_layers) + " layers");
  if (head.mask_id >= 0) fail("has a mask");
  if (head.tied_head) fail("has its embedding as its head");
  if (head.normed_residual || head.normed_output || head.norms_each || head.norms_all || stack.qk_norm) {
    fail("has norms at other places");
  }
  if (stack.qkv_bias || stack.output_bias || stack.mlp_bias) fail("has biases");
  if (stack.hidden != head.target_hidden) fail("has another hidden size than its target");
  const LayerAttention& layer = stack.layers.front();
  if (layer.window > 0) fail("has a window");
  if (layer.rope.scaling != RopeConfig::Scaling::kNone || layer.rope.partial_rotary_factor != 1.0) {
    fail("scales its rope");
  }
}

std::vector<int32_t> read_draft_ids(const Eagle3Config& head) {
  const Checkpoint checkpoint(head.folder);
  const auto has = [&](const std::string& name) { return checkpoint.tensors().contains(name); };
  if (!has("midlayer.hidden_norm.weight") && !has("model.midlayer.hidden_norm.weight")) {
    throw Error("train", head.folder.string() +
                             ": has no tensor midlayer.hidden_norm.weight; expected a head with the " +
                             "names of SpecForge, and not those of another form");
  }
  if (head.draft_vocab == head.vocab) return {};
  std::vector<int32_t> ids = read_draft_vocabulary(checkpoint, head.names, head.draft_vocab, head.vocab);
  if (std::ranges::adjacent_find(ids, std::greater_equal()) == ids.end()) return ids;
  throw Error("train", head.folder.string() + ": d2t has tokens that do not ascend, which is not trained here");
}

// vLLM reads the layers at the top, where they count what enters a layer; SGLang those of eagle_config, where they
// count what leaves it. A draft_vocab_size of null says that the head is the target's: SGLang wants the key, and both
// take a missing max_position_embeddings for 2048. block_size is ours alone.
Json specforge_config(const Eagle3Config& head) {
  const LayerAttention& layer = head.stack.layers.front();
  std::vector<int32_t> entered;
  for (const int32_t id : head.aux_layers) entered.push_back(id + 1);
  return {{"architectures", {"LlamaForCausalLMEagle3"}},
          {"model_type", "llama"},
          {"eagle_aux_hidden_state_layer_ids", entered},
          {"eagle_config", {{"eagle_aux_hidden_state_layer_ids", head.aux_layers}, {"use_aux_hidden_state", true}}},
          {"hidden_size", head.stack.hidden},
          {"intermediate_size", head.stack.intermediate},
          {"num_hidden_layers", head.stack.n_layers},
          {"num_attention_heads", layer.shape.n_heads},
          {"num_key_value_heads", layer.shape.n_kv_heads},
          {"head_dim", layer.shape.head_dim},
          {"hidden_act", "silu"},
          {"rms_norm_eps", shortest(head.stack.norm_eps)},
          {"rope_theta", layer.rope.theta},
          {"vocab_size", head.vocab},
          {"draft_vocab_size", head.draft_vocab == head.vocab ? Json() : Json(head.draft_vocab)},
          {"max_position_embeddings", head.max_positions},
          {"block_size", head.block_size},
          {"attention_bias", false},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"}};
}

TrainedDrafter eagle3_drafter(const Eagle3Config& head, std::vector<int32_t> draft_ids) {
  TrainedDrafter out;
  out.summary = "eagle3, 1 layer";
  out.aux_layers = head.aux_layers;
  TrainShape& shape = out.shape = shape_of(head.stack);
  shape.aux_width = head.aux_width();
  shape.vocab = head.vocab;
  shape.block = head.block_size;
  shape.draft_ids = std::move(draft_ids);
  if (head.draft_vocab != head.vocab) out.draft_vocab = head.draft_vocab;
  out.make_network = make_eagle3_network;
  out.gamma = -1 / std::log(kDecay);
  const Json config = specforge_config(head);
  out.settings = config;
  out.exported = [config](DrafterForm form, const Model& target, const TrainShape& of) {
    if (form != DrafterForm::kZlab) {
      throw Error("train", "EAGLE-3 heads are written in SpecForge's form alone: leave --format out");
    }
    DrafterExport all = {config, {}};
    if (!of.draft_ids.empty()) add_draft_vocabulary(of.draft_ids, target, all);
    return all;
  };
  return out;
}

}  // namespace ashlar
