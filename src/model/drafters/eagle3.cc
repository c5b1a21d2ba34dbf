// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/eagle3.h"

#include <algorithm>
#include <utility>

#include "base/bf16.h"
#include "base/check.h"
#include "base/error.h"
#include "model/drafters/draft_vocabulary.h"
#include "model/drafters/eagle3_attention.h"

namespace ashlar {
namespace {

// Checkpoints differ in what the first layer is called.
std::vector<std::string> name_layers(const WeightBinder& binder, const std::string& prefix, const DrafterNames& names,
                                     int32_t n) {
  std::vector<std::string> bases;
  for (int32_t i = 0; i < n; ++i) bases.push_back(prefix + names.layers + std::to_string(i) + ".");
  if (binder.has(prefix + "midlayer.hidden_norm.weight")) bases[0] = prefix + "midlayer.";
  return bases;
}

}  // namespace

std::unique_ptr<Eagle3Head> Eagle3Head::load(const Model& target, const std::filesystem::path& folder) {
  return load(target, read_eagle3_config(folder));
}

std::unique_ptr<Eagle3Head> Eagle3Head::load(const Model& target, Eagle3Config config) {
  fit_to_target(config, target.config());
  check_rope_size(config.folder, config.stack, target.max_positions());
  const Checkpoint checkpoint(config.folder);
  return load(target, std::move(config), checkpoint);
}

std::unique_ptr<Eagle3Head> Eagle3Head::load(const Model& target, Eagle3Config config, const Checkpoint& checkpoint) {
  WeightBinder binder(target.ops(), checkpoint, Products::kPropose);
  std::unique_ptr<Eagle3Head> head(new Eagle3Head(target, std::move(config), binder));
  binder.finish();
  return head;
}

Eagle3Head::Eagle3Head(const Model& target, Eagle3Config config, WeightBinder& binder)
    : ops_(target.ops()),
      target_(target),
      config_(std::move(config)),
      prefix_(find_prefix(binder)),
      projection_(
          binder.linear({{prefix_ + config_.names.projection, config_.stack.hidden}}, config_.aux_width(), false)),
      norm_(binder.norm(prefix_ + config_.names.norm, config_.stack.hidden, false)),
      ropes_(ops_, config_.stack, target.max_positions()),
      stack_(binder, config_.stack, name_layers(binder, prefix_, config_.names, config_.stack.n_layers),
             [this](WeightBinder& from, const std::string& base, int32_t layer) -> std::unique_ptr<Mixer> {
               const int32_t hidden = config_.stack.hidden;
               if (layer > 0) return std::make_unique<Attention>(from, config_.stack, base, layer, ropes_);
               auto attention = std::make_unique<Attention>(from, config_.stack, base, layer, ropes_, 2 * hidden);
               return std::make_unique<Eagle3Attention>(std::move(attention),
                                                        from.norm(base + config_.names.pair_norm, hidden, false),
                                                        pairs_, config_.normed_residual);
             }) {
  const auto n = static_cast<int32_t>(config_.aux_layers.size());
  for (int32_t i = 0; i < n; ++i) {
    aux_layers_.push_back({config_.aux_layers[static_cast<size_t>(i)], i * config_.target_hidden});
    if (config_.norms_each) {
      aux_norms_.push_back(binder.norm(prefix_ + "fc_norm." + std::to_string(i), config_.target_hidden, false));
    }
  }
  if (config_.norms_all)
    aux_norms_.push_back(binder.norm(prefix_ + config_.names.aux_norm, config_.aux_width(), false));
  if (config_.mask_id >= 0) mask_hidden_ = binder.row(prefix_ + "mask_hidden", config_.aux_width());
  std::ranges::stable_sort(aux_layers_, {}, &AuxLayer::layer);
  if (config_.names.rope_factors != nullptr) binder.ignore(config_.names.rope_factors);
  bind_vocabulary(binder);
}

void Eagle3Head::bind_vocabulary(WeightBinder& binder) {
  const int32_t hidden = config_.stack.hidden;
  const std::string embedding = prefix_ + config_.names.embedding;
  if (binder.has(embedding + ".weight")) {
    own_embedding_ = binder.vocabulary({embedding, config_.vocab}, hidden);
  } else if (hidden != target_.config().stack.hidden) {
    binder.matrix(embedding + ".weight", config_.vocab, hidden);  // says what is missing
  }
  id_map_ = bind_draft_vocabulary(binder, config_.names, config_.draft_vocab, config_.vocab);
  const std::string name = config_.names.head;
  const std::string head = (binder.has(prefix_ + name + ".weight") ? prefix_ : "") + name;
  const bool may_share = config_.draft_vocab == config_.vocab &&
                         (hidden == target_.config().stack.hidden || (config_.tied_head && own_embedding_));
  if (binder.has(head + ".weight") || !may_share) {
    own_head_ = binder.linear({{head, config_.draft_vocab}}, hidden, false);
  } else if (!config_.tied_head) {
    quantised_head_ = ops_.repack(target_.head_weight(), Products::kPropose);
  }
}

const Weight& Eagle3Head::head_weight() const {
  if (own_head_) return *own_head_;
  if (quantised_head_) return *quantised_head_;
  return config_.tied_head ? embedding() : target_.head_weight();
}

void Eagle3Head::reserve(int32_t max_rows) {
  workspace_ = std::make_unique<StackWorkspace>(ops_, stack_, max_rows);
  const int32_t hidden = config_.stack.hidden;
  const int32_t aux = aux_norms_.empty() ? 0 : config_.aux_width();
  const DType type = ops_.activation_type();
  const size_t column = bytes_of(type) * static_cast<size_t>(max_rows);
  storage_ = ops_.allocate(column * static_cast<size_t>(3 * hidden + aux));
  pairs_ = {storage_->data(), max_rows, 2 * hidden, 2 * hidden, type};
  features_ = {storage_->data() + column * 2 * static_cast<size_t>(hidden), max_rows, hidden, hidden, type};
  normed_ = {storage_->data() + column * 3 * static_cast<size_t>(hidden), max_rows, aux, aux, type};
  if (config_.mask_id >= 0) make_mask_feature();
}

// What the target would have left there goes the way of what it does leave.
void Eagle3Head::make_mask_feature() {
  const DType type = ops_.activation_type();
  const int32_t hidden = config_.stack.hidden;
  const auto n = static_cast<size_t>(config_.aux_width());
  mask_storage_ = ops_.allocate(bytes_of(type) * (n + static_cast<size_t>(hidden)));
  if (type == DType::kF32) {
    ops_.upload(mask_hidden_.data(), mask_storage_->data(), sizeof(float) * n);
  } else {
    ASHLAR_CHECK(type == DType::kBF16);
    std::vector<BFloat16> rounded(n);
    std::ranges::transform(mask_hidden_, rounded.begin(), [](float value) { return to_bf16(value); });
    ops_.upload(rounded.data(), mask_storage_->data(), sizeof(BFloat16) * n);
  }
  mask_feature_ = {mask_storage_->data() + bytes_of(type) * n, 1, hidden, hidden, type};
  ops_.copy(features({mask_storage_->data(), 1, config_.aux_width(), config_.aux_width(), type}), mask_feature_);
}

Tensor Eagle3Head::features(Tensor aux_hidden) {
  const auto n = static_cast<int32_t>(aux_norms_.size());
  Tensor in = aux_hidden;
  if (n > 0) {
    in = normed_.narrow(aux_hidden.rows);
    const int32_t width = in.cols / n;
    for (int32_t i = 0; i < n; ++i) {
      ops_.rms_norm(aux_hidden.columns(i * width, width), aux_norms_[static_cast<size_t>(i)].data(),
                    config_.stack.norm_eps, in.columns(i * width, width));
    }
  }
  const Tensor out = features_.narrow(aux_hidden.rows);
  ops_.linear(*projection_, in, Store::kOverwrite, out);
  return out;
}

DraftHead::Output Eagle3Head::forward(Tensor features, const RowBatch& batch, const KvMemory& kv) {
  StackWorkspace& workspace = *workspace_;
  ops_.embed(embedding(), batch.rows().ids, 1.0F, pairs_.narrow(batch.n()).columns(0, config_.stack.hidden));
  const Tensor residual = workspace.x.narrow(batch.n());
  if (features.data != residual.data) ops_.copy(features, residual);  // else the last pass left them there
  const Tensor x = stack_.forward(ops_, batch, kv, workspace, {});
  if (x.rows == 0) return {};
  const Tensor out = workspace.normed.narrow(x.rows);
  ops_.rms_norm(x, norm_.data(), config_.stack.norm_eps, out);
  return {out, config_.normed_output ? out : x};
}

void Eagle3Head::head(Tensor hidden, Tensor out) const { ops_.linear(head_weight(), hidden, Store::kOverwrite, out); }

void Eagle3Head::head_argmax(Tensor hidden, int32_t* entries) const {
  ops_.linear_argmax(head_weight(), hidden, entries);
}

size_t Eagle3Head::bytes_read() const { return stack_.weight_bytes() + projection_->bytes() + head_weight().bytes(); }

}  // namespace ashlar
