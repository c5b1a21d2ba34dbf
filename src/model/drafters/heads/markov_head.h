// SPDX-License-Identifier: Apache-2.0
#pragma once
// A head whose drafts know the one before them: to the logits of a position comes what the token before it adds, a
// product over the vocabulary for every position in its turn. Source: DSpark (arXiv 2607.05147; DeepSpec, speculators).

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device_array.h"
#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/drafters/dflash_config.h"
#include "model/drafters/heads/in_turn_head.h"

namespace ashlar {

/// With e the code of the token before a position and h the position's final hidden state, its logits grow by W2 e, or
/// where there is a gate by W2 (sigmoid(G [h; e] + g) * e).
class MarkovHead final : public InTurnHead {
 public:
  /// Binds what `names` calls, after PREFIX, the codes [vocab, rank], the outputs [draft_vocab, rank] and, of heads
  /// with one, the gate [rank, hidden + rank] with its bias.
  MarkovHead(WeightBinder& binder, const std::string& prefix, const DrafterNames& names, const MarkovConfig& config,
             int32_t hidden, int32_t vocab, int32_t draft_vocab);

  const Weight& codes() const { return *codes_; }  ///< of tokens: [vocab, rank]
  size_t bytes_read() const override { return outputs_->bytes(); }
  void reserve(Ops& ops, int32_t blocks) override;
  void add(Ops& ops, Tensor hidden, Tensor logits, std::span<const Step> steps) override;

 private:
  static constexpr int32_t kAtOnce = 16;  // positions

  Tensor codes_of(Ops& ops, Tensor hidden, std::span<const Step> steps);

  MarkovConfig config_;
  int32_t hidden_, draft_vocab_;
  std::unique_ptr<Weight> codes_, outputs_;
  std::unique_ptr<Weight> gate_of_hidden_, gate_of_code_;  // null: no gate
  DeviceArray<int32_t> ids_;                               // tokens, then rows
  DeviceArray<float> added_;
  std::unique_ptr<Buffer> storage_;
  Tensor code_rows_, gates_, hidden_rows_;  // [kAtOnce, rank], the same, [kAtOnce, hidden]
  std::vector<int32_t> host_ids_;
};

}  // namespace ashlar
