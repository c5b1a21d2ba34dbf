// SPDX-License-Identifier: Apache-2.0
#pragma once
// A head whose drafts know all drafts of the block before them: a gated recurrent unit reads the block's tokens one by
// one, and what it remembers adds to the logits. Source: Domino (SpecForge, speculators, SGLang).

#include <memory>
#include <string>
#include <vector>

#include "device/device_array.h"
#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/drafters/dflash_config.h"
#include "model/drafters/heads/in_turn_head.h"

namespace ashlar {

/// With x the embedding of the token before a position and h what was remembered so far, reset and update gates r and u
/// are sigmoid(W x + U h), the new state (1 - u) * tanh(Wn x + r * (Un h)) + u * h (Cho et al. 2014, in PyTorch's
/// form). With y the position's final hidden state, its logits grow by B silu(A [y; state]), but for those of the
/// block's first drafts.
class DominoHead final : public InTurnHead {
 public:
  /// Binds prefix_gru and embed_proj after PREFIX, which may have "logits_correction." or "logit_head." before them.
  /// `embedding`: that of the block's tokens, which outlives this.
  DominoHead(WeightBinder& binder, const std::string& prefix, const DflashConfig& config, const Weight& embedding);

  size_t bytes_read() const override;
  void reserve(Ops& ops, int32_t blocks) override;
  void add(Ops& ops, Tensor hidden, Tensor logits, std::span<const Step> steps) override;

 private:
  static constexpr int32_t kAtOnce = 16;  // positions whose products over the vocabulary are there together

  /// The states after these steps' tokens, a row for each.
  Tensor remember(Ops& ops, std::span<const Step> steps);

  DominoConfig config_;
  int32_t hidden_, draft_vocab_;
  float embedding_scale_;
  const Weight& embedding_;
  std::unique_ptr<Weight> gates_of_token_[2], gates_of_state_[2];  // reset, update: [state, hidden], [state, state]
  std::unique_ptr<Weight> new_of_token_, new_of_state_;
  std::unique_ptr<Weight> code_of_hidden_, code_of_state_;  // A, cut
  std::unique_ptr<Weight> outputs_;                         // B
  DeviceArray<int32_t> ids_;                                // tokens, rows of states; then rows of positions
  DeviceArray<float> added_;
  std::unique_ptr<Buffer> storage_;
  Tensor embedded_, before_, gates_[2], fresh_;  // [blocks, ...]
  Tensor states_[2];                             // [blocks + 1, state]: the last row stays zero
  Tensor hidden_rows_, codes_, spare_;           // [kAtOnce, ...]
  int32_t current_ = 0;                          // which of states_ is the newest
  std::vector<int32_t> rows_of_;                 // by row of the newest states: the block
  std::vector<int32_t> host_ids_;
};

}  // namespace ashlar
