// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/mtp.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/mapped_file.h"
#include "model/drafters/mtp_config.h"
#include "model/mixers/attention.h"

namespace ashlar {
namespace {

[[noreturn]] void fail_mtp(const ModelConfig& target, const std::string& what) {
  throw Error("drafter", target.folder.string() + ": " + what +
                             "; --drafter ngram or a drafter folder works without a layer of the model's own");
}

bool holds(const Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.tensors().contains(name + ".weight");
}

// Everything else belongs to the target, which takes it.
void ignore_others(WeightBinder& binder, const Checkpoint& checkpoint, const std::string& prefix) {
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (!name.starts_with(prefix)) binder.ignore(name);
  }
}

// A matrix [rows, cols] that the layer has of its own; null: it has none, or the same numbers as the model's
// `original`.
std::unique_ptr<Weight> own_copy(WeightBinder& binder, const Checkpoint& checkpoint, const std::string& name,
                                 const std::string& original, int64_t rows, int64_t cols) {
  if (!binder.has(name + ".weight")) return nullptr;
  if (!holds_twice(checkpoint, name + ".weight", original + ".weight")) return binder.vocabulary({name, rows}, cols);
  binder.ignore(name + ".weight");
  return nullptr;
}

}  // namespace

StackConfig mtp_stack(const ModelConfig& target) {
  if (target.names.mtp == nullptr)
    fail_mtp(target, "models of the family " + target.family + " have no layer that drafts");
  if (target.mtp.layers > 1) {
    fail_mtp(target, std::string(target.mtp.layers_key) + " is " + std::to_string(target.mtp.layers) +
                         "; one layer is supported");
  }
  if (target.mtp.own_vocabulary) {
    fail_mtp(target, "mtp_use_dedicated_embeddings is set; a layer that shares the model's embedding is supported");
  }
  StackConfig stack = target.stack;
  int32_t attention = 0;
  while (attention < stack.n_layers && stack.is_delta_net(attention)) ++attention;
  if (attention == stack.n_layers)
    fail_mtp(target, "no layer is attention, whose shape the layer that drafts would have");
  stack.layers = {target.stack.layers[static_cast<size_t>(attention)]};
  stack.n_layers = 1;
  stack.delta_net.reset();
  if (stack.moe) {
    const std::vector<bool>& mixtures = target.stack.moe->layers;
    stack.moe->layers = {std::find(mixtures.begin(), mixtures.end(), true) != mixtures.end()};
  }
  return stack;
}

void check_own_layer(const std::filesystem::path& drafter, const ModelConfig& target) {
  std::error_code none;
  if (std::filesystem::equivalent(drafter, target.folder, none)) return;
  throw Error("drafter", drafter.string() +
                             " is a model; its layer that drafts reads its own hidden states and not those of " +
                             target.folder.string() + ": expected a drafter folder, or mtp for this model's own layer");
}

bool has_mtp(const ModelConfig& target, const Checkpoint& checkpoint) {
  if (target.names.mtp == nullptr || target.mtp.layers != 1 || target.mtp.own_vocabulary) return false;
  const std::string prefix = target.mtp_prefix();
  const LayerNames& names = target.stack.names;
  const MtpNames& mtp = *target.names.mtp;
  const std::string layer = prefix + mtp.layer;
  for (const char* name : {mtp.projection, mtp.embedding_norm, mtp.hidden_norm, mtp.norm}) {
    if (!holds(checkpoint, prefix + name)) return false;
  }
  for (const char* name : {names.input_norm, names.post_norm, names.q, names.k, names.v, names.attention_output}) {
    if (!holds(checkpoint, layer + name)) return false;
  }
  for (const char* name : {names.q_norm, names.k_norm}) {
    if (target.stack.qk_norm && !holds(checkpoint, layer + name)) return false;
  }
  for (const char* name : {names.gate, names.up, names.down}) {
    if (!target.stack.moe && !holds(checkpoint, layer + name)) return false;
  }
  return true;
}

bool has_mtp(const std::filesystem::path& model) {
  ModelConfig config = read_model_config(model);
  if (config.names.mtp == nullptr) return false;
  const Checkpoint checkpoint(model);
  choose_names(config, checkpoint);
  return has_mtp(config, checkpoint);
}

bool is_model_of_mtp_family(const std::filesystem::path& folder) {
  if (!(is_gguf(folder) && file_exists(folder)) && !file_exists(folder / "config.json")) return false;
  try {
    return read_model_config(folder).names.mtp != nullptr;
  } catch (const Error&) {  // it is no model at all
    return false;
  }
}

std::unique_ptr<MtpHead> MtpHead::load(const Model& target) {
  const Checkpoint checkpoint(target.config().folder);
  mtp_stack(target.config());  // says what else is wrong
  const std::string prefix = target.config().mtp_prefix();
  const auto& tensors = checkpoint.tensors();
  if (const auto first = tensors.lower_bound(prefix); first == tensors.end() || !first->first.starts_with(prefix)) {
    fail_mtp(target.config(), "holds no tensors " + prefix + "*, of the layer that drafts");
  }
  return load(target, checkpoint);
}

std::unique_ptr<MtpHead> MtpHead::load(const Model& target, const Checkpoint& checkpoint) {
  StackConfig config = mtp_stack(target.config());
  const std::string prefix = target.config().mtp_prefix();
  WeightBinder binder(target.ops(), checkpoint, Products::kPropose);
  const MtpNames& names = *target.config().names.mtp;
  std::unique_ptr<MtpHead> head(new MtpHead(target, std::move(config), prefix, names, binder, checkpoint));
  ignore_others(binder, checkpoint, prefix);
  binder.finish();
  return head;
}

std::unique_ptr<MtpHead> MtpHead::load(const Model& target, const std::filesystem::path& folder) {
  MtpFolderConfig config = read_mtp_config(folder);
  check_fit(config, target.config());
  check_rope_size(folder, config.stack, target.max_positions());
  const Checkpoint checkpoint(folder);
  WeightBinder binder(target.ops(), checkpoint, Products::kPropose);
  std::unique_ptr<MtpHead> head(
      new MtpHead(target, std::move(config.stack), kQwenMtp.prefix, kQwenMtp, binder, checkpoint));
  binder.finish();
  return head;
}

MtpHead::MtpHead(const Model& target, StackConfig config, std::string prefix, const MtpNames& names,
                 WeightBinder& binder, const Checkpoint& checkpoint)
    : ops_(target.ops()),
      target_(target),
      config_(std::move(config)),
      prefix_(std::move(prefix)),
      names_(names),
      embedding_norm_(binder.norm(prefix_ + names_.embedding_norm, config_.hidden, config_.norms_from_one)),
      hidden_norm_(binder.norm(prefix_ + names_.hidden_norm, config_.hidden, config_.norms_from_one)),
      norm_(binder.norm(prefix_ + names_.norm, config_.hidden, config_.norms_from_one)),
      projection_(binder.linear({{prefix_ + names_.projection, config_.hidden}}, int64_t{2} * config_.hidden, false)),
      ropes_(ops_, config_, target.max_positions()),
      stack_(binder, config_, std::vector<std::string>{prefix_ + names_.layer},
             [this](WeightBinder& from, const std::string& base, int32_t layer) {
               return std::make_unique<Attention>(from, config_, base, layer, ropes_);
             }),
      aux_layer_{target.config().stack.n_layers - 1, 0} {
  const ModelNames& originals = target.config().names;
  const auto copy = [&](const char* name, const char* original) -> std::unique_ptr<Weight> {
    if (name == nullptr) return nullptr;
    return own_copy(binder, checkpoint, prefix_ + name, original, vocab(), config_.hidden);
  };
  own_embedding_ = copy(names_.embedding, originals.embedding);
  own_head_ = copy(names_.head, target.config().tied_head ? originals.embedding : originals.head);
  quantised_head_ = ops_.repack(exact_head(), Products::kPropose);
  if (quantised_head_) own_head_.reset();
}

void MtpHead::reserve(int32_t max_rows) {
  workspace_ = std::make_unique<StackWorkspace>(ops_, stack_, max_rows);
  const int32_t hidden = config_.hidden;
  const DType type = ops_.activation_type();
  const size_t column = bytes_of(type) * static_cast<size_t>(max_rows);
  storage_ = ops_.allocate(column * 3 * static_cast<size_t>(hidden));
  pairs_ = {storage_->data(), max_rows, 2 * hidden, 2 * hidden, type};
  features_ = {storage_->data() + column * 2 * static_cast<size_t>(hidden), max_rows, hidden, hidden, type};
}

// The target's last hidden state comes as its last layer left it.
Tensor MtpHead::features(Tensor aux_hidden) {
  const Tensor out = features_.narrow(aux_hidden.rows);
  ops_.rms_norm(aux_hidden, target_.norm_weight(), config_.norm_eps, out);
  return out;
}

DraftHead::Output MtpHead::forward(Tensor features, const RowBatch& batch, const KvMemory& kv) {
  StackWorkspace& workspace = *workspace_;
  const int32_t hidden = config_.hidden;
  const Tensor pairs = pairs_.narrow(batch.n());
  const Tensor embedded = pairs.columns(0, hidden);
  ops_.embed(embedding(), batch.rows().ids, 1.0F, embedded);
  ops_.rms_norm(embedded, embedding_norm_.data(), config_.norm_eps, embedded);
  ops_.rms_norm(features, hidden_norm_.data(), config_.norm_eps, pairs.columns(hidden, hidden));
  ops_.linear(*projection_, pairs, Store::kOverwrite, workspace.x.narrow(batch.n()));
  const Tensor x = stack_.forward(ops_, batch, kv, workspace, {});
  if (x.rows == 0) return {};
  const Tensor out = workspace.normed.narrow(x.rows);
  ops_.rms_norm(x, norm_.data(), config_.norm_eps, out);
  return {out, out};
}

void MtpHead::head(Tensor hidden, Tensor out) const { ops_.linear(head_weight(), hidden, Store::kOverwrite, out); }

void MtpHead::head_argmax(Tensor hidden, int32_t* entries) const { ops_.linear_argmax(head_weight(), hidden, entries); }

size_t MtpHead::bytes_read() const { return stack_.weight_bytes() + projection_->bytes() + head_weight().bytes(); }

}  // namespace ashlar
