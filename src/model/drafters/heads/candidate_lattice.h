// SPDX-License-Identifier: Apache-2.0
#pragma once
// A head that looks at all candidates of a block at once: a small transformer over them, without a mask, says of each
// what follows it well and what it follows well, two vectors whose cosine is the score of an edge. Source: LiLiCorr
// (NVIDIA, arXiv 2608.20530; Model-Optimizer, SGLang, vLLM).

#include <memory>
#include <string>
#include <vector>

#include "device/device_array.h"
#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/drafters/dflash_config.h"
#include "model/drafters/heads/candidate_head.h"
#include "model/drafters/heads/candidate_numbers.h"

namespace ashlar {

/// A candidate begins as the sum of its token's embedding and its position's hidden state, projected, of what its
/// numbers say, and of an embedding of its position and rank.
class CandidateLattice final : public CandidateHead {
 public:
  /// Binds PREFIX + "pass_hidden_proj.weight" and so on, as Model-Optimizer exports them. `config`: of a drafter that
  /// has a lattice. `embedding`: the target's, which outlives this.
  CandidateLattice(WeightBinder& binder, const std::string& prefix, const DflashConfig& config,
                   const Weight& embedding);

  /// Activations that reserve() asks for.
  static int64_t workspace(const LatticeConfig& config, int32_t model_hidden, int32_t rows);

  int32_t candidates() const override { return config_.top_k; }
  bool sees_blocks() const override { return true; }
  size_t bytes_read() const override;
  void reserve(Ops& ops, int32_t rows) override;
  /// Waits twice: for the candidates and for their scores.
  SelectedEdges score(Ops& ops, const CandidateRows& rows) override;

 private:
  struct Layer {
    DeviceVector attention_norm, mlp_norm;
    std::unique_ptr<Weight> qkv, output, up, down;
  };
  /// Which candidate is what, in device memory.
  struct Places {
    const int32_t *ids, *places, *rows, *blocks;  // [rows * n]: token, row of places_, position and block of the call
    const int32_t *begins, *first, *end;          // [rows]: as CandidateEdges and CandidateAttention have them
  };

  void bind_layers(WeightBinder& binder, const std::string& prefix);
  Places upload_places(int32_t rows, std::span<const CandidateRows::Begin> begins);
  void upload_numbers(Ops& ops);
  void embed(Ops& ops, const Places& at, Tensor hidden, Tensor x);
  void run_layers(Ops& ops, const Places& at, Tensor x);
  void score_edges(Ops& ops, const Places& at, Tensor x, Tensor features, int32_t rows);
  void add_gathered(Ops& ops, Tensor from, const int32_t* indices, Tensor x);
  void silu(Ops& ops, Tensor x);

  LatticeConfig config_;
  int32_t model_hidden_, slots_;
  float eps_, embedding_scale_;
  const Weight& embedding_;
  CandidateNumbers numbers_;
  std::unique_ptr<Weight> token_;  // null where a row of the lattice is as wide as an embedding
  std::unique_ptr<Weight> pass_, numbers_up_, numbers_down_;
  std::unique_ptr<Weight> places_;  // [slots * top_k, hidden]
  std::vector<Layer> layers_;
  DeviceVector bias_, output_norm_, anchor_norm_;
  DeviceVector unit_;     // [factor_dim]: what makes of an RMS norm one of the length
  DeviceVector nothing_;  // [hidden]
  std::unique_ptr<Weight> context_, of_candidate_, of_anchor_, of_both_, out_, in_, anchor_out_;

  std::vector<int32_t> indices_;
  std::vector<std::byte> number_bytes_;
  std::vector<float> scores_;
  DeviceArray<int32_t> device_indices_;
  DeviceArray<float> zeros_, one_, edges_;
  std::unique_ptr<Buffer> storage_;
  // Rows are candidates, if nothing else is said; wide_ and spare_ are used for what is not needed for long.
  Tensor x_, factors_, number_rows_, spare_, wide_;
  Tensor anchors_, of_anchors_, anchor_outs_;  // [blocks, ...]
};

}  // namespace ashlar
