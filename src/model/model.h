// SPDX-License-Identifier: Apache-2.0
#pragma once
// A target model: one forward for prefill, decoding and verification alike.

#include <filesystem>
#include <memory>
#include <span>

#include "model/layer_stack.h"
#include "model/rope.h"

namespace ashlar {

/// Whether the embedding serves as the head: config.json ties them and the files hold no other head. Merged fine-tunes
/// hold one that was trained apart from the embedding and keep the base model's config.json; as in transformers 5 the
/// stored head counts there.
bool ties_head(const ModelConfig& config, const Checkpoint& checkpoint);

/// Takes the names that the checkpoint's tensors have, where the family has several.
void choose_names(ModelConfig& config, const Checkpoint& checkpoint);

class Model {
 public:
  /// Loads the folder and packs its weights on the device. `max_positions`: how long a sequence may get (at most the
  /// configuration's own limit). Throws Error naming file, field or tensor.
  /// `bind_mixer`: binds the mixers of layers for which it does not return null; the others are what the configuration
  /// says.
  static std::unique_ptr<Model> load(Ops& ops, const std::filesystem::path& folder, int32_t max_positions = 0,
                                     const BindMixer& bind_mixer = {});
  /// The same of tensors that a checkpoint of the folder's holds, or makes.
  static std::unique_ptr<Model> load(Ops& ops, ModelConfig config, const Checkpoint& checkpoint, int32_t max_positions,
                                     const BindMixer& bind_mixer = {});

  const ModelConfig& config() const { return config_; }
  /// Longest sequence, in tokens.
  int32_t max_positions() const { return max_positions_; }
  const Ropes& ropes() const { return ropes_; }
  /// Tensors of the checkpoint that are no part of this model: how many, and what of. Empty: none. `drafts_itself`: the
  /// layer that drafts is in use (ModelNames::mtp).
  std::string unused(bool drafts_itself = false) const;
  /// Whether a layer keeps a state that the rows of a sequence make one after another.
  bool is_recurrent() const { return stack_.is_recurrent(); }
  void register_state(KvLayout& layout) { stack_.register_state(layout, "target", ops_); }

  /// Makes a branch's rows that were verified part of its sequence: copies K and V of a branch table to the pages.
  void commit(const KvMemory& kv, const BranchTable& branch, const int32_t* pages) const {
    stack_.commit(ops_, kv, branch, pages);
  }

  /// Makes the activations for batches of up to `max_rows` rows.
  void reserve(int32_t max_rows);

  /// Runs the batch: K and V of every row go to the cache, auxiliary hidden states (if any) to aux.out. Returns the
  /// final, normed hidden states of the wanted rows, [batch.n_outputs(), hidden], valid until the next call.
  Tensor forward(const RowBatch& batch, const KvMemory& kv, const AuxHiddenRequest& aux);
  /// Monotonic time at which a forward was last done with a layer; 0: never. Any thread, after reserve().
  int64_t last_progress_ns() const { return workspace_->progress_ns.load(std::memory_order_relaxed); }

  /// Logits of final hidden states: out[r] = head(hidden[r]), scaled and capped. hidden: [rows, hidden], out: [rows,
  /// vocab].
  void head(Tensor hidden, Tensor out) const;
  /// Whether scaling and capping make no two logits equal that were not: then head() and head_argmax() agree on the
  /// highest.
  bool scales_exactly() const;
  /// The index of the highest product of each row with the head, the lowest of equals, without logits reaching memory.
  void head_argmax(Tensor hidden, int32_t* ids) const;

  /// Statistics of each row's logits without that of id `without`, which never reach memory either.
  void head_statistics(Tensor hidden, int32_t without, RowStatistics* out) const;

  const Weight& embedding() const { return *embedding_; }
  /// Of the norm before the head: [hidden].
  const float* norm_weight() const { return norm_.data(); }
  const Weight& head_weight() const { return head_ ? *head_ : *embedding_; }
  size_t weight_bytes() const;
  Ops& ops() const { return ops_; }

 private:
  Model(Ops& ops, ModelConfig config, WeightBinder& binder, int32_t max_positions, const BindMixer& bind_mixer);
  BindMixer mixer_or(const BindMixer& bind_mixer) const;

  Ops& ops_;
  ModelConfig config_;
  std::unique_ptr<Weight> embedding_;
  std::unique_ptr<Weight> head_;  // null: tied to the embedding
  std::string unused_, unused_mtp_;
  std::unique_ptr<LayerEmbeddings> layer_embeddings_;  // null: none
  DeviceVector norm_;
  int32_t max_positions_;
  Ropes ropes_;
  LayerStack stack_;
  std::unique_ptr<StackWorkspace> workspace_;
};

}  // namespace ashlar
