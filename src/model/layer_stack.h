#pragma once
// The decoder layers that targets and drafters share: pre-norm attention and gated MLP on a residual stream.

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv/layout.h"
#include "model/config.h"
#include "model/mlp.h"
#include "model/rope.h"
#include "model/row_batch.h"
#include "model/weight_binder.h"

namespace ashlar {

/// Activations of a stack for up to `max_rows` rows, allocated once.
class StackWorkspace {
 public:
  StackWorkspace(Ops& ops, const StackConfig& config, int32_t max_rows);

  Tensor x;       ///< [max_rows, hidden]: the residual stream
  Tensor normed;  ///< [max_rows, hidden]: what enters a mixture of experts, and the head
  Tensor qkv;     ///< [max_rows, q_width + 2 kv_width]
  Tensor mixed;   ///< [max_rows, q_width]: attention output
  Tensor kept;    ///< [max_rows, hidden]: the residual stream of outputs, where the last layer leaves out other rows
  MlpWorkspace mlp;
  std::vector<int32_t> begin, end;               ///< [kinds, max_rows]
  mutable std::atomic<int64_t> progress_ns = 0;  ///< when a layer was last done; read by any thread

 private:
  std::unique_ptr<Buffer> storage_, routes_;
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

class LayerStack {
 public:
  /// Binds PREFIX + "i.*" for every layer i.
  LayerStack(WeightBinder& binder, const StackConfig& config, const std::string& prefix);

  /// One plane per layer, named NAME.i.
  void register_planes(KvLayout& layout, const std::string& name, Ops& ops);

  /// Copies K and V of a branch table to the pages, in every plane.
  void commit(Ops& ops, const KvMemory& kv, const BranchTable& branch, const int32_t* pages) const;

  /// Runs all layers on workspace.x (first batch.n() rows), writing K and V of every row to the cache. Returns the
  /// residual stream of the batch's outputs [batch.n_outputs(), hidden], in the workspace.
  Tensor forward(Ops& ops, const RowBatch& batch, const Rope& rope, const KvMemory& kv, StackWorkspace& workspace,
                 const AuxHiddenRequest& aux) const;

  const StackConfig& config() const { return config_; }
  int32_t plane(int32_t layer) const { return first_plane_ + layer; }
  const float* k_norm(int32_t layer) const { return layers_[layer].k_norm.data(); }
  size_t weight_bytes() const;

 private:
  struct Layer {
    DeviceVector input_norm, post_norm, q_norm, k_norm;
    std::unique_ptr<Weight> qkv, output;
    std::unique_ptr<Mlp> mlp;
  };

  /// One forward: what its layers read and write.
  struct Pass {
    const RowBatch& batch;
    const Rope& rope;
    const KvMemory& kv;
    StackWorkspace& workspace;
    const AuxHiddenRequest& aux;
    bool few;  ///< the last layer computes outputs alone
  };
  /// A layer for all rows of the batch.
  void run_layer(Ops& ops, int32_t index, const Pass& pass) const;
  /// The last layer where only some rows are outputs: keys and values of all rows, the rest for outputs alone, whose
  /// residual stream it leaves in workspace.kept.
  void run_for_outputs(Ops& ops, int32_t index, const Pass& pass) const;
  void feed_forward(Ops& ops, int32_t index, const Pass& pass, Tensor x) const;
  /// Copies all rows where the hidden states after the layer are wanted.
  void copy_aux_hidden(Ops& ops, int32_t index, const Pass& pass) const;
  /// What enters a layer, where its keys and values go, and what each row sees there.
  Input input(int32_t index, const Pass& pass) const;
  KvStore store(int32_t index, const Pass& pass, const Rows& rows) const;
  Visibility visible(int32_t index, const Pass& pass) const;

  StackConfig config_;
  std::vector<Layer> layers_;
  std::vector<LayerAttention> kinds_;  // distinct values of config_.layers
  std::vector<int32_t> kind_of_;       // [n_layers]
  int32_t first_plane_ = 0;
};

}  // namespace ashlar
