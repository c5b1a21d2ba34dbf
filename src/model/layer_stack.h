// SPDX-License-Identifier: Apache-2.0
#pragma once
// The decoder layers that targets and drafters share: a mixer and an MLP on a residual stream, each after a norm.

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/layout.h"
#include "model/binding/weight_binder.h"
#include "model/config.h"
#include "model/mixers/block_conv.h"
#include "model/mixers/layer_embedding.h"
#include "model/mixers/mixer.h"
#include "model/mixers/mlp.h"
#include "model/row_batch.h"

namespace ashlar {

class LayerStack;

/// Activations of a stack for up to `max_rows` rows, allocated once.
class StackWorkspace {
 public:
  StackWorkspace(Ops& ops, const LayerStack& stack, int32_t max_rows);

  Tensor x;       ///< [max_rows, hidden]: the residual stream
  Tensor normed;  ///< [max_rows, hidden]: what enters a mixture of experts, and the head
  Tensor answer;  ///< [max_rows, hidden]: of a mixer or an MLP, where it is normed or scaled; none otherwise
  Tensor zeros;   ///< [max_rows, hidden], every row the same one; where something is added up apart
  Tensor kept;    ///< [max_rows, hidden]: the residual stream of outputs, where the last layer leaves out other rows
  MixerWorkspace mixer;
  MlpWorkspace mlp;
  ConvWorkspace conv;                            // where the stack has convolutions
  LayerEmbeddingWorkspace embeddings;            // where its layers have embeddings; `rows` is made before the forward
  int32_t *begin, *end;                          ///< [kinds, max_rows], in device memory
  mutable std::atomic<int64_t> progress_ns = 0;  ///< when a layer was last done; read by any thread

 private:
  std::unique_ptr<Buffer> storage_, routes_, visible_, zeros_;
};

/// Where copies of the residual stream go: after layer `layer` to columns [column, column + hidden) of `out`.
struct AuxLayer {
  int32_t layer = 0;
  int32_t column = 0;
};
struct AuxHiddenRequest {
  std::span<const AuxLayer> layers;  ///< ascending by layer
  Tensor out;                        ///< [rows or more, columns]

  /// Those of one layer.
  std::span<const AuxLayer> after(int32_t layer) const {
    const auto first =
        std::find_if(layers.begin(), layers.end(), [layer](const AuxLayer& aux) { return aux.layer == layer; });
    const auto last = std::find_if(first, layers.end(), [layer](const AuxLayer& aux) { return aux.layer != layer; });
    return {first, last};
  }
};

/// What stands before the layers and after them, within the same recorded pass: it follows from the batch, the stack
/// and its workspace alone. Either may be empty.
struct StackEnds {
  std::function<void()> before;
  std::function<void(Tensor x)> after;  ///< x: what LayerStack::forward() returns
};

/// Binds the mixer of layer `layer`, whose tensors' names begin with `base`.
using BindMixer = std::function<std::unique_ptr<Mixer>(WeightBinder& binder, const std::string& base, int32_t layer)>;

class LayerStack {
 public:
  /// Binds PREFIX + "i.*" for every layer i.
  LayerStack(WeightBinder& binder, const StackConfig& config, const std::string& prefix, const BindMixer& bind_mixer);
  /// Binds BASES[i] + "*" for every layer i.
  LayerStack(WeightBinder& binder, const StackConfig& config, const std::vector<std::string>& bases,
             const BindMixer& bind_mixer);

  /// What layer i keeps of a sequence, named NAME.i.
  void register_state(KvLayout& layout, const std::string& name, Ops& ops);

  /// Makes what a branch's rows left in scratch slots part of its sequence, in every layer.
  void commit(Ops& ops, const KvMemory& kv, const BranchTable& branch, const int32_t* pages) const;

  /// Runs all layers on workspace.x (first batch.n() rows), writing what they keep of every row to the memory. Returns
  /// the residual stream of the batch's outputs [batch.n_outputs(), hidden], in the workspace.
  Tensor forward(Ops& ops, const RowBatch& batch, const KvMemory& kv, StackWorkspace& workspace,
                 const AuxHiddenRequest& aux, const StackEnds& ends = {}) const;

  const StackConfig& config() const { return config_; }
  const Mixer& mixer(int32_t layer) const { return *layers_[static_cast<size_t>(layer)].mixer; }
  size_t weight_bytes() const;
  /// Whether any layer is.
  bool is_recurrent() const;

 private:
  struct Layer {
    DeviceVector input_norm, post_norm;               // none: mixer and MLP read the residual stream as it is
    DeviceVector mixer_output_norm, mlp_output_norm;  // none: answers are added as they are
    std::unique_ptr<Mixer> mixer;
    std::unique_ptr<Mlp> mlp;
    std::unique_ptr<BlockConv> mixer_conv, mlp_conv;  // null: none
    std::unique_ptr<LayerEmbedding> embedding;        // null: none
    float scale = 1.0F;                               // of what leaves the layer
  };

  /// One forward: what its layers read and write.
  struct Pass {
    const RowBatch& batch;
    const KvMemory& kv;
    StackWorkspace& workspace;
    const AuxHiddenRequest& aux;
    bool few;  ///< the last layer computes outputs alone
  };
  /// From what the ops of a pass follow.
  PassKey key_of(const Pass& pass) const;
  /// What each kind of layer sees, then all layers.
  void run_layers(Ops& ops, const Pass& pass) const;
  /// A layer for all rows of the batch.
  void run_layer(Ops& ops, int32_t index, const Pass& pass) const;
  /// The last layer where only some rows are outputs: the mixer keeps what it keeps of all rows, and the rest is
  /// computed for outputs alone, whose residual stream goes to workspace.kept.
  void run_for_outputs(Ops& ops, int32_t index, const Pass& pass) const;
  void feed_forward(Ops& ops, int32_t index, const Pass& pass, Tensor x) const;
  /// What follows the MLP. outputs: null where x has all rows.
  void finish_layer(Ops& ops, int32_t index, const Pass& pass, const int32_t* outputs, Tensor x) const;
  /// x += what `add` adds to its argument, through the norm if there is one, and scaled.
  template <class Add>
  void add_answer(Ops& ops, const DeviceVector& norm, const StackWorkspace& workspace, Tensor x, Add add) const;
  /// Copies all rows where the hidden states after the layer are wanted.
  void copy_aux_hidden(Ops& ops, int32_t index, const Pass& pass) const;
  /// What the layer's mixer reads. Auxiliary hidden states between two layers are copied where the second one reads its
  /// rows anyway.
  MixerCall mixer_call(Ops& ops, int32_t index, const Pass& pass) const;

  StackConfig config_;
  std::vector<Layer> layers_;
  std::vector<LayerAttention> kinds_;  // config_.layers that differ in what rows see
  std::vector<int32_t> kind_of_;       // [n_layers]
};

}  // namespace ashlar
