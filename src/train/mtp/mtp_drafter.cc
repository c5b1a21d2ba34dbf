// SPDX-License-Identifier: Apache-2.0
#include "train/mtp/mtp_drafter.h"

#include <cmath>
#include <string>

#include "base/error.h"
#include "io/weights/checkpoint.h"
#include "model/drafters/mtp.h"
#include "train/export/drafter_folder.h"
#include "train/run/drafter_design.h"

namespace ashlar {
namespace {

constexpr double kMtpDecay = 0.6;  // of a step's weight to the one before, as FastMTP has it

[[noreturn]] void fail_layer(const std::filesystem::path& folder, const std::string& what) {
  throw Error("train", folder.string() + ": the layer that drafts " + what + ", which is not trained here");
}

bool holds_any(const Checkpoint& checkpoint, const std::string& prefix) {
  const auto first = checkpoint.tensors().lower_bound(prefix);
  return first != checkpoint.tensors().end() && first->first.starts_with(prefix);
}

// Of the target's own, in its checkpoint.
StackConfig own_layer(const ModelConfig& target, const Checkpoint& checkpoint) {
  if (target.mtp_prefix() != kQwenMtp.prefix) fail_layer(target.folder, "has names other than mtp.*");
  if (!checkpoint.quantisation().empty()) fail_layer(target.folder, "is quantised");
  return mtp_stack(target);
}

}  // namespace

MtpFolderConfig design_mtp(const ModelConfig& target, const DrafterWishes& wishes) {
  DrafterWishes all = wishes;
  all.layers = 1;
  const DflashConfig design = design_drafter(target, all, 0);  // which has no masked position
  MtpFolderConfig layer;
  layer.stack = design.stack;
  for (LayerAttention& attention : layer.stack.layers) attention.causal = true;
  const Checkpoint checkpoint(target.folder);
  if (has_mtp(target, checkpoint)) {
    layer.stack = own_layer(target, checkpoint);
    layer.folder = target.folder;
  } else if (target.names.mtp != nullptr && holds_any(checkpoint, target.mtp_prefix())) {
    own_layer(target, checkpoint);  // which says what is the matter, where it knows
    fail_layer(target.folder, "lacks tensors that are expected");
  }
  layer.vocab = design.vocab;
  layer.max_positions = design.max_positions;
  layer.block_size = design.block_size;
  check_trainable(layer);
  return layer;
}

void check_trainable(const MtpFolderConfig& layer) {
  const StackConfig& stack = layer.stack;
  const LayerAttention& attention = stack.layers.front();
  const auto refuse = [&](bool has, const char* what) {
    if (has) fail_layer(layer.folder, what);
  };
  refuse(stack.moe.has_value(), "is a mixture of experts");
  refuse(stack.qkv_bias || stack.output_bias || stack.mlp_bias, "has biases");
  refuse(!stack.qk_norm || stack.wide_qk_norm, "has no norm for each head's queries and keys");
  refuse(stack.output_norms || stack.value_norm || !stack.input_norms, "has norms at other places");
  refuse(stack.residual_scale != 1.0F || stack.layer_scale || stack.sinks, "scales what it adds");
  refuse(stack.activation != Activation::kSilu, "has another activation than SiLU");
  refuse(attention.window > 0, "has a window");
  refuse(attention.rope.scaling != RopeConfig::Scaling::kNone, "scales its rope");
}

Json mtp_words(const MtpFolderConfig& layer) {
  const LayerAttention& attention = layer.stack.layers.front();
  return {{"architectures", {"MtpLayer"}},
          {"model_type", "mtp"},
          {"mtp_config",
           {{"output_gate", layer.stack.output_gate},
            {"norms_from_one", layer.stack.norms_from_one},
            {"block_size", layer.block_size}}},
          {"hidden_size", layer.stack.hidden},
          {"intermediate_size", layer.stack.intermediate},
          {"num_hidden_layers", 1},
          {"num_attention_heads", attention.shape.n_heads},
          {"num_key_value_heads", attention.shape.n_kv_heads},
          {"head_dim", attention.shape.head_dim},
          {"hidden_act", "silu"},
          {"rms_norm_eps", shortest(layer.stack.norm_eps)},
          {"rope_theta", attention.rope.theta},
          {"partial_rotary_factor", attention.rope.partial_rotary_factor},
          {"vocab_size", layer.vocab},
          {"max_position_embeddings", layer.max_positions},
          {"torch_dtype", "bfloat16"}};
}

TrainedDrafter mtp_drafter(const MtpFolderConfig& layer, const ModelConfig& target) {
  const LayerAttention& attention = layer.stack.layers.front();
  TrainedDrafter out;
  out.summary = layer.folder == target.folder ? "mtp, the model's own layer" : "mtp, 1 layer";
  out.aux_layers = {target.stack.n_layers - 1};
  out.start = layer.folder;
  TrainShape& shape = out.shape = shape_of(layer.stack);
  shape.aux_width = layer.stack.hidden;
  shape.vocab = layer.vocab;
  shape.block = layer.block_size;
  shape.own_layer = {
      attention.rope.rotary_dim(attention.shape.head_dim), layer.stack.output_gate, layer.stack.norms_from_one, {}};
  out.make_network = make_mtp_network;
  out.gamma = -1 / std::log(kMtpDecay);
  const Json config = mtp_words(layer);
  out.settings = config;
  out.exported = [config](DrafterForm form, const Model&, const TrainShape&) -> DrafterExport {
    if (form == DrafterForm::kZlab) return {config, {}};
    throw Error("train", "layers that predict further tokens are written as mtp.* alone: leave --format out");
  };
  return out;
}

}  // namespace ashlar
