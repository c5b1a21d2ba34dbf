// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "model/mixers/attention.h"
#include "model/mixers/gated_delta_net.h"
#include "model/mixers/shared_attention.h"
#include "model/mixers/short_conv.h"

namespace ashlar {

namespace {

void list(std::string& all, const std::string& one) { all += (all.empty() || one.empty() ? "" : ", ") + one; }

// "333 of model.visual."; empty: none.
std::string ignore_all_of(const std::string& prefix, WeightBinder& binder, const Checkpoint& checkpoint) {
  int64_t n = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (prefix.empty() || !name.starts_with(prefix)) continue;
    binder.ignore(name);
    ++n;
  }
  return n > 0 ? std::to_string(n) + " of " + prefix : std::string();
}

int32_t positions_of(const ModelConfig& config, int32_t asked) {
  return asked > 0 ? std::min(asked, config.max_positions) : config.max_positions;
}

}  // namespace

void choose_names(ModelConfig& config, const Checkpoint& checkpoint) {
  const auto embeds = [&](const ModelNames& names) {
    return checkpoint.tensors().contains(std::string(names.embedding) + ".weight");
  };
  if (config.other_names && !embeds(config.names) && embeds(*config.other_names)) config.names = *config.other_names;
}

bool ties_head(const ModelConfig& config, const Checkpoint& checkpoint) {
  if (!config.tied_head) return false;
  const std::string head = std::string(config.names.head) + ".weight";
  const std::string embedding = std::string(config.names.embedding) + ".weight";
  if (!checkpoint.tensors().contains(head) || !checkpoint.tensors().contains(embedding)) return true;
  return holds_twice(checkpoint, head, embedding);
}

std::unique_ptr<Model> Model::load(Ops& ops, const std::filesystem::path& folder, int32_t max_positions,
                                   const BindMixer& bind_mixer) {
  ModelConfig config = read_model_config(folder);
  check_rope_size(folder, config.stack, positions_of(config, max_positions));
  const Checkpoint checkpoint(folder);
  return load(ops, std::move(config), checkpoint, max_positions, bind_mixer);
}

std::unique_ptr<Model> Model::load(Ops& ops, ModelConfig config, const Checkpoint& checkpoint, int32_t max_positions,
                                   const BindMixer& bind_mixer) {
  const int32_t positions = positions_of(config, max_positions);
  choose_names(config, checkpoint);
  config.tied_head = ties_head(config, checkpoint);
  WeightBinder binder(ops, checkpoint);
  std::unique_ptr<Model> model(new Model(ops, std::move(config), binder, positions, bind_mixer));
  for (const char* prefix : model->config_.names.unused) {
    list(model->unused_, ignore_all_of(prefix != nullptr ? prefix : "", binder, checkpoint));
  }
  for (const std::string& prefix : model->config_.mtp_prefixes()) {
    list(model->unused_mtp_, ignore_all_of(prefix, binder, checkpoint));
  }
  binder.finish();
  return model;
}

std::string Model::unused(bool drafts_itself) const {
  std::string all = unused_;
  if (!drafts_itself) list(all, unused_mtp_);
  return all;
}

BindMixer Model::mixer_or(const BindMixer& bind_mixer) const {
  // Layers are bound in their order: what one shares is there.
  return [this, bind_mixer, bound = std::vector<const Attention*>(static_cast<size_t>(config_.stack.n_layers))](
             WeightBinder& binder, const std::string& base, int32_t layer) mutable -> std::unique_ptr<Mixer> {
    std::unique_ptr<Mixer> mixer = bind_mixer ? bind_mixer(binder, base, layer) : nullptr;
    if (mixer) return mixer;
    const StackConfig& stack = config_.stack;
    if (stack.is_delta_net(layer)) return std::make_unique<GatedDeltaNet>(binder, stack, base);
    if (stack.is_short_conv(layer)) return std::make_unique<GatedShortConv>(binder, stack, base);
    if (const int32_t source = stack.layers[static_cast<size_t>(layer)].kv_of; source >= 0) {
      return std::make_unique<SharedAttention>(binder, stack, base, layer, ropes_, *bound[static_cast<size_t>(source)]);
    }
    auto attention = std::make_unique<Attention>(binder, stack, base, layer, ropes_);
    bound[static_cast<size_t>(layer)] = attention.get();
    return attention;
  };
}

Model::Model(Ops& ops, ModelConfig config, WeightBinder& binder, int32_t max_positions, const BindMixer& bind_mixer)
    : ops_(ops),
      config_(std::move(config)),
      embedding_(binder.vocabulary({config_.names.embedding, config_.vocab}, config_.stack.hidden)),
      layer_embeddings_(config_.stack.layer_embedding
                            ? std::make_unique<LayerEmbeddings>(binder, config_.stack, config_.names)
                            : nullptr),
      norm_(binder.norm(config_.names.norm, config_.stack.hidden, config_.stack.norms_from_one)),
      max_positions_(max_positions),
      ropes_(ops, config_.stack, max_positions),
      stack_(binder, config_.stack, config_.names.layers, mixer_or(bind_mixer)) {
  const std::string head = config_.names.head;
  if (!config_.tied_head) {
    head_ = binder.vocabulary({head, config_.vocab}, config_.stack.hidden);
  } else if (binder.has(head + ".weight")) {
    binder.matrix(head + ".weight", config_.vocab, config_.stack.hidden);  // a stored copy of the embedding: unused
  }
  if (config_.names.rope_factors != nullptr) binder.ignore(config_.names.rope_factors);
  for (int32_t i = 0; i < config_.stack.n_layers; ++i) {  // a buffer that old exports stored
    const std::string name = config_.names.layers + std::to_string(i) + ".self_attn.rotary_emb.inv_freq";
    if (binder.has(name)) binder.ignore(name);
  }
}

void Model::reserve(int32_t max_rows) { workspace_ = std::make_unique<StackWorkspace>(ops_, stack_, max_rows); }

Tensor Model::forward(const RowBatch& batch, const KvMemory& kv, const AuxHiddenRequest& aux) {
  StackWorkspace& workspace = *workspace_;
  const auto embed = [&] {
    ops_.embed(*embedding_, batch.rows().ids, config_.embedding_scale, workspace.x.narrow(batch.n()));
    if (layer_embeddings_ && batch.n() > 0) {
      layer_embeddings_->make(ops_, batch.rows().ids, workspace.x.narrow(batch.n()), workspace.embeddings);
    }
  };
  const auto norm = [&](Tensor x) {
    ops_.rms_norm(x, norm_.data(), config_.stack.norm_eps, workspace.normed.narrow(x.rows));
  };
  const Tensor x = stack_.forward(ops_, batch, kv, workspace, aux, {std::ref(embed), std::ref(norm)});
  return workspace.normed.narrow(x.rows);
}

void Model::head(Tensor hidden, Tensor out) const {
  ops_.linear(head_weight(), hidden, Store::kOverwrite, out);
  if (config_.logit_scale != 1.0F) ops_.scale(out, config_.logit_scale);
  if (config_.logit_softcap != 0.0F) ops_.softcap(out, config_.logit_softcap);
}

bool Model::scales_exactly() const {
  int exponent = 0;
  return std::frexp(config_.logit_scale, &exponent) == 0.5F && config_.logit_softcap == 0.0F;
}

void Model::head_argmax(Tensor hidden, int32_t* ids) const { ops_.linear_argmax(head_weight(), hidden, ids); }

void Model::head_statistics(Tensor hidden, int32_t without, RowStatistics* out) const {
  ASHLAR_CHECK(config_.logit_scale == 1.0F && config_.logit_softcap == 0.0F);
  ops_.linear_statistics(head_weight(), hidden, without, out);
}

size_t Model::weight_bytes() const {
  return stack_.weight_bytes() + embedding_->bytes() + (head_ ? head_->bytes() : 0) +
         (layer_embeddings_ ? layer_embeddings_->bytes() : 0);
}

}  // namespace ashlar
