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
  std::vector<RowPart> parts;                    ///< [threads]
  std::vector<int64_t> work;                     ///< [max_rows + 1]: of all rows before each
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
  /// Cuts the rows of a pass into parts of about as much work.
  bool cut(const RowBatch& batch, StackWorkspace& workspace, std::span<RowPart> parts) const;
  /// All layers, part by part; apart: no sequence has rows in two of them.
  void run_side_by_side(Ops& ops, const Pass& pass, std::span<const RowPart> parts, bool apart) const;
  /// A layer for all rows of the batch.
  void whole_layer(Ops& ops, int32_t index, const Pass& pass) const;
  /// The rest of a layer for some rows of the batch whose sequences have all their keys, and the keys of the next one.
  /// Touches what belongs to those rows only. What the last layer yields is in workspace.kept if pass.few, otherwise in
  /// workspace.x.
  void finish_layer(Ops& ops, int32_t index, const Pass& pass, const RowPart& part) const;
  void feed_forward(Ops& ops, int32_t index, const Pass& pass, Tensor x) const;
  /// Copies rows x of a part where the hidden states after the layer are wanted.
  void copy_aux_hidden(Ops& ops, int32_t index, const Pass& pass, const RowPart& part, Tensor x) const;
  /// What enters a layer, where its keys and values go, and what rows from `first` on see there.
  Input input(int32_t index, const Pass& pass, const RowPart& part) const;
  KvStore store(int32_t index, const Pass& pass, const Rows& rows) const;
  Visibility visible(int32_t index, const Pass& pass, int32_t first) const;
  void store_keys(Ops& ops, int32_t index, const Pass& pass, const RowPart& part) const;
  /// Of the part's rows from row `first` of the batch on.
  void attend(Ops& ops, int32_t index, const Pass& pass, const RowPart& part, int32_t first) const;

  StackConfig config_;
  std::vector<Layer> layers_;
  std::vector<LayerAttention> kinds_;  // distinct values of config_.layers
  std::vector<int32_t> kind_of_;       // [n_layers]
  int32_t first_plane_ = 0;
  size_t largest_layer_ = 0;  // bytes of weights
};

}  // namespace ashlar
