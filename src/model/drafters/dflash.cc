// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/dflash.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "model/drafters/draft_vocabulary.h"
#include "model/drafters/heads/candidate_lattice.h"
#include "model/drafters/heads/candidate_selector.h"
#include "model/drafters/heads/domino_head.h"
#include "model/drafters/heads/markov_head.h"

namespace ashlar {
namespace {

// The output multiplier applies to what enters the head, so it folds into the norm before it.
std::vector<float> final_norm(WeightBinder& binder, const DflashConfig& config) {
  std::vector<float> weight = binder.vector(find_prefix(binder) + config.names.norm + ".weight", config.stack.hidden);
  for (float& value : weight) value *= config.output_multiplier;
  return weight;
}

std::unique_ptr<Weight> bind_context_kv(WeightBinder& binder, const StackConfig& stack, const std::string& prefix) {
  std::vector<WeightBinder::Part> parts;
  for (int32_t i = 0; i < stack.n_layers; ++i) {
    const std::string base = prefix + std::to_string(i) + ".";
    parts.push_back({base + stack.names.k, stack.layers[i].shape.kv_width()});
    parts.push_back({base + stack.names.v, stack.layers[i].shape.kv_width()});
  }
  return binder.linear(parts, stack.hidden, stack.qkv_bias);
}

}  // namespace

std::unique_ptr<DflashDrafter> DflashDrafter::load(const Model& target, const std::filesystem::path& folder) {
  return load(target, read_dflash_config(folder));
}

std::unique_ptr<DflashDrafter> DflashDrafter::load(const Model& target, DflashConfig config) {
  const std::filesystem::path folder = config.folder;
  check_fit(config, target.config());
  check_rope_size(folder, config.stack, target.max_positions());
  const Checkpoint checkpoint(folder);
  return load(target, std::move(config), checkpoint);
}

std::unique_ptr<DflashDrafter> DflashDrafter::load(const Model& target, DflashConfig config,
                                                   const Checkpoint& checkpoint) {
  WeightBinder binder(target.ops(), checkpoint, Products::kPropose);
  std::unique_ptr<DflashDrafter> drafter(new DflashDrafter(target, std::move(config), binder));
  binder.finish();
  return drafter;
}

DflashDrafter::DflashDrafter(const Model& target, DflashConfig config, WeightBinder& binder)
    : ops_(target.ops()),
      target_(target),
      config_(std::move(config)),
      feature_projection_(
          binder.linear({{find_prefix(binder) + config_.names.projection, config_.stack.hidden}}, aux_width(), false)),
      feature_norm_(
          binder.device_vector(find_prefix(binder) + config_.names.feature_norm + ".weight", config_.stack.hidden)),
      context_kv_(bind_context_kv(binder, config_.stack, find_prefix(binder) + config_.names.layers)),
      norm_(ops_, final_norm(binder, config_)),
      ropes_(ops_, config_.stack, target.max_positions()),
      stack_(binder, config_.stack, find_prefix(binder) + config_.names.layers,
             [this](WeightBinder& from, const std::string& base, int32_t index) {
               auto layer = std::make_unique<Attention>(from, config_.stack, base, index, ropes_);
               attention_.push_back(layer.get());
               return layer;
             }) {
  for (size_t i = 0; i < config_.aux_layers.size(); ++i) {
    aux_layers_.push_back({config_.aux_layers[i], static_cast<int32_t>(i) * config_.target_hidden});
  }
  std::stable_sort(aux_layers_.begin(), aux_layers_.end(),
                   [](const AuxLayer& a, const AuxLayer& b) { return a.layer < b.layer; });
  if (config_.names.rope_factors != nullptr) binder.ignore(config_.names.rope_factors);
  if (config_.own_vocabulary || config_.may_own_vocabulary) bind_vocabulary(binder);
  if (config_.markov) bind_markov(binder);
  if (config_.domino) in_turn_ = std::make_unique<DominoHead>(binder, find_prefix(binder), config_, embedding());
  if (config_.refiner) refiner_ = std::make_unique<BlockRefiner>(binder, find_prefix(binder), config_);
  if (config_.selector || config_.lattice) bind_selector(binder);
  if (!own_head_ && !is_tied()) quantised_head_ = ops_.repack(target_.head_weight(), Products::kPropose);
}

const Weight& DflashDrafter::head_weight() const {
  if (quantised_head_) return *quantised_head_;
  if (own_head_) return *own_head_;
  return is_tied() ? *own_embedding_ : target_.head_weight();
}

void DflashDrafter::bind_vocabulary(WeightBinder& binder) {
  const std::string prefix = find_prefix(binder);
  const DrafterNames& names = config_.names;
  const bool embeds = config_.own_vocabulary || binder.has(prefix + names.embedding + ".weight");
  if (embeds) own_embedding_ = binder.vocabulary({prefix + names.embedding, config_.vocab}, config_.stack.hidden);
  const std::string head = (binder.has(prefix + names.head + ".weight") ? prefix : "") + names.head;
  const bool may_lack = (!embeds || config_.tied_head) && config_.draft_vocab == config_.vocab;
  if (may_lack && !binder.has(head + ".weight")) return;
  own_head_ = binder.linear({{head, config_.draft_vocab}}, config_.stack.hidden, false);
  id_map_ = bind_draft_vocabulary(binder, names, config_.draft_vocab, config_.vocab);
}

// Codes are by the target's ids, and so are candidates.
void DflashDrafter::bind_selector(WeightBinder& binder) {
  for (size_t i = 0; i < id_map_.size(); ++i) {
    if (id_map_[i] == static_cast<int32_t>(i)) continue;
    throw Error("drafter", config_.folder.string() + ": tensor d2t: entry " + std::to_string(i) + " stands for token " +
                               std::to_string(id_map_[i]) +
                               "; a drafter with a candidate selector needs the target's ids");
  }
  id_map_.clear();
  const std::string prefix = find_prefix(binder);
  if (config_.lattice) {
    selector_ =
        std::make_unique<CandidateLattice>(binder, prefix + config_.names.lattice, config_, target_.embedding());
    return;
  }
  selector_ = std::make_unique<CandidateSelector>(binder, prefix, config_.names, *config_.selector,
                                                  config_.stack.hidden, config_.vocab, config_.output_multiplier);
}

void DflashDrafter::bind_markov(WeightBinder& binder) {
  const std::string prefix = find_prefix(binder);
  auto markov = std::make_unique<MarkovHead>(binder, prefix, config_.names, *config_.markov, config_.stack.hidden,
                                             config_.vocab, config_.draft_vocab);
  codes_ = &markov->codes();
  in_turn_ = std::move(markov);
  if (config_.markov->confidence_width == 0) return;
  const int32_t hidden = config_.stack.hidden;
  confidence_ = std::make_unique<ConfidenceHead>(binder, prefix + config_.names.confidence, hidden,
                                                 config_.markov->confidence_width - hidden);
}

void DflashDrafter::reserve(int32_t max_context_rows, int32_t max_block_rows) {
  workspace_ = std::make_unique<StackWorkspace>(ops_, stack_, max_block_rows);
  const int32_t hidden = config_.stack.hidden;
  const int32_t width = context_kv_->n();
  const DType type = ops_.activation_type();
  const size_t column = bytes_of(type) * static_cast<size_t>(max_context_rows);
  context_storage_ = ops_.allocate(column * static_cast<size_t>(hidden + width));
  features_ = {context_storage_->data(), max_context_rows, hidden, hidden, type};
  projected_ = {context_storage_->data() + column * static_cast<size_t>(hidden), max_context_rows, width, width, type};
}

Tensor DflashDrafter::features(Tensor aux_hidden) {
  const Tensor out = features_.narrow(aux_hidden.rows);
  ops_.linear(*feature_projection_, aux_hidden, Store::kOverwrite, out);
  ops_.rms_norm(out, feature_norm_.data(), config_.stack.norm_eps, out);
  return out;
}

void DflashDrafter::write_context(Tensor aux_hidden, const Rows& rows, const KvMemory& kv) {
  PassKey key(this, rows.n);
  key.add(rows);
  key.add(aux_hidden);
  key.add(&kv);
  key.add(projected_.data);
  const auto write = [&] {
    const Tensor projected = projected_.narrow(aux_hidden.rows);
    ops_.linear(*context_kv_, features(aux_hidden), Store::kOverwrite, projected);
    int32_t column = 0;
    for (int32_t i = 0; i < config_.stack.n_layers; ++i) {
      const int32_t width = 2 * config_.stack.layers[i].shape.kv_width();
      ops_.store_kv(projected.columns(column, width), attention_[static_cast<size_t>(i)]->store(rows, kv));
      column += width;
    }
  };
  ops_.run_pass(key, std::ref(write));
}

Tensor DflashDrafter::forward(const RowBatch& batch, const KvMemory& kv) {
  StackWorkspace& workspace = *workspace_;
  const auto embed = [&] {
    ops_.embed(embedding(), batch.rows().ids, config_.embedding_scale, workspace.x.narrow(batch.n()));
  };
  const auto norm = [&](Tensor x) {
    ops_.rms_norm(x, norm_.data(), config_.stack.norm_eps, workspace.normed.narrow(x.rows));
  };
  const Tensor x = stack_.forward(ops_, batch, kv, workspace, {}, {std::ref(embed), std::ref(norm)});
  return workspace.normed.narrow(x.rows);
}

void DflashDrafter::head(Tensor hidden, Tensor out) const {
  PassKey key(this, hidden.rows);
  key.add(&head_weight());
  key.add(hidden);
  key.add(out);
  const auto pass = [&] {
    ops_.linear(head_weight(), hidden, Store::kOverwrite, out);
    if (config_.softcap > 0) ops_.softcap(out, config_.softcap);
  };
  ops_.run_pass(key, std::ref(pass));
}

// The soft cap keeps the order of logits.
void DflashDrafter::head_argmax(Tensor hidden, int32_t* entries) const {
  ops_.linear_argmax(head_weight(), hidden, entries);
}

size_t DflashDrafter::bytes_read() const {
  return stack_.weight_bytes() + feature_projection_->bytes() + context_kv_->bytes() + head_weight().bytes() +
         (selector_ ? selector_->bytes_read() : 0) +
         (in_turn_ ? in_turn_->bytes_read() * static_cast<size_t>(config_.max_width() - 1) : 0) +
         (refiner_ ? refiner_->bytes_read() * static_cast<size_t>(refiner_->rounds()) : 0);
}

}  // namespace ashlar
