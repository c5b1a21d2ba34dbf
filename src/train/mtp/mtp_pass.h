// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward of a layer that predicts further tokens (MTP), unrolled: one layer, applied again for each token
// further, reads the embedding of a token next to what it left itself for the token before, the target's last hidden
// state at first. Rows before a chain are made of the target's, as when serving. Sources: FastMTP (arXiv 2509.18362)
// for the shared layer and its recursion; Qwen3.5 as vLLM and SGLang run it for the layer.

#include "train/chain/chain_pass.h"
#include "train/mtp/mtp_parameters.h"

namespace ashlar {

class MtpPass final : public ChainPass {
 public:
  MtpPass(TrainOps& ops, const TrainShape& shape, const MtpParameters& parameters, const FrozenTables& frozen,
          std::optional<DistributionLoss> distribution);

  size_t bytes(int32_t context_rows, int32_t block_rows) const override;

 private:
  /// What is kept of rows for their backward: of the context's, or of a step's.
  struct LayerRows {
    Tensor pairs;     // [n, 2 hidden]: both norms side by side
    Tensor stream;    // [n, hidden]: what enters the layer
    Tensor raw_keys;  // [n, kv_width]: before norm and rope
    Tensor raw_q;     // [n, width], or of each head query and gate; none: of rows that nothing asks
    const int32_t *ids, *positions;
  };

  void lay_out(TensorRoom& room, const Sizes& sizes) override;
  void context_forward() override;
  void step_forward(int32_t s) override;
  void step_backward(int32_t s) override;
  void context_backward() override;

  LayerRows rows_of(int32_t s) const;
  LayerRows context() const;
  void enter(const LayerRows& rows, Tensor features);
  /// Of rows whose normed stream is in normed_.
  void make_keys(const LayerRows& rows, Tensor keys);
  /// Queries of the same, to q_.
  void make_queries(const LayerRows& rows);
  /// What attention answered, gated if there is a gate; to be read before the next call.
  Tensor gated(int32_t s);
  /// Back to the stream's normed rows: to d_normed_, to which queries' has been added, or which it overwrites.
  void keys_backward(const LayerRows& rows, Tensor d_keys, Store store);
  void queries_backward(const LayerRows& rows);
  /// From d_normed_ on to the features, whose gradient is added where it is wanted. `d_stream`: of the stream so far.
  void enter_backward(const LayerRows& rows, Tensor features, Tensor d_stream, Tensor d_features, Store store);

  Tensor input_of(int32_t s) const { return s == 0 ? first_input_ : step(s - 1).state; }
  Tensor heads_of(Tensor rows) const { return by_heads(rows, shape_.head_dim); }
  /// Rows one after another as rows of heads of `size` columns.
  static Tensor by_heads(Tensor rows, int32_t size) {
    const int32_t n = rows.cols / size;
    ASHLAR_CHECK_EQ(rows.stride, int64_t{rows.cols});
    return {rows.data, rows.rows * n, size, size, rows.dtype};
  }
  int32_t q_width() const { return own_.output_gate ? 2 * width() : width(); }
  /// Of raw queries, head by head: the queries, and the gates.
  Tensor query_heads(Tensor raw) const { return by_heads(raw, raw.cols / shape_.heads).columns(0, shape_.head_dim); }
  Tensor gate_heads(Tensor raw) const {
    return by_heads(raw, raw.cols / shape_.heads).columns(shape_.head_dim, shape_.head_dim);
  }

  const MtpParameters& parameters_;
  const TrainOwnLayer& own_;
  std::unique_ptr<Buffer> target_norm_;
  std::vector<LayerRows> rows_;  // of each step
  LayerRows context_kept_;
  Tensor features_;                          // [context rows, hidden]: of the target
  Tensor first_input_;                       // [blocks, hidden]
  Tensor embedded_, d_embedded_, d_stream_;  // [context rows or blocks, hidden]
  Tensor d_pairs_;                           // [context rows or blocks, 2 hidden]
  Tensor placed_keys_, d_raw_keys_;          // [context rows or blocks, kv_width]
  Tensor attended_, gated_;                  // [blocks, width]
  Tensor d_raw_q_;                           // [blocks, q_width]
};

}  // namespace ashlar
