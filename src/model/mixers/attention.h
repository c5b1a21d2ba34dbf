// SPDX-License-Identifier: Apache-2.0
#pragma once
// Grouped-query attention with rotary positions over paged keys and values.

#include "model/binding/weight_binder.h"
#include "model/config.h"
#include "model/mixers/mixer.h"
#include "model/rope.h"

namespace ashlar {

class Attention final : public Mixer {
 public:
  /// Binds layer `layer`, whose tensors' names begin with `base`. `ropes` outlive the mixer. `inputs`: columns of what
  /// queries, keys and values are made of; 0: the stack's hidden size.
  Attention(WeightBinder& binder, const StackConfig& config, const std::string& base, int32_t layer, const Ropes& ropes,
            int32_t inputs = 0);

  int32_t projected_width() const override { return qkv_width() + (gate_ ? shape_.q_width() : 0); }
  int32_t mixed_width() const override { return shape_.q_width(); }
  size_t bytes() const override { return qkv_->bytes() + output_->bytes() + (gate_ ? gate_->bytes() : 0); }
  void register_state(KvLayout& layout, const std::string& name, Ops& ops) override;
  void forward(Ops& ops, const MixerCall& call, Tensor x) const override;
  void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const override;
  void commit(Ops& ops, const KvMemory& memory, const BranchTable& branch, const int32_t* pages) const override;

  /// How to finish keys and values (and queries, where `rows` have them) and where they go: what a drafter's context
  /// rows need, whose keys and values come from another product.
  KvStore store(const Rows& rows, const KvMemory& memory) const;

  const AttentionShape& shape() const { return shape_; }
  /// Where its keys and values lie.
  KvPlane plane(const KvMemory& memory) const { return memory.plane(plane_); }

 private:
  /// Whether something stands between the product and what store_kv does with it.
  bool finishes_apart() const { return wide_q_norm_.data() != nullptr || value_norm_.data() != nullptr; }
  int32_t qkv_width() const { return shape_.q_width() + 2 * shape_.kv_width(); }
  void bind_keys_as_values(WeightBinder& binder, const StackConfig& config, const std::string& base);
  void bind_gated(WeightBinder& binder, const StackConfig& config, const std::string& base);
  Tensor qkv_of(const MixerCall& call, int32_t rows) const;
  /// Finished queries, keys and values of all rows, the latter two in the memory as well.
  void project(Ops& ops, const MixerCall& call, Tensor qkv, const KvStore& to) const;
  /// Multiplies what rows attended to by their gates. in: what enters the projection of these rows.
  void gate(Ops& ops, const MixerCall& call, Input in, Tensor mixed) const;

  AttentionShape shape_;
  float norm_eps_;
  const RopeTable& rope_;
  DeviceVector q_norm_, k_norm_;            // of a head
  DeviceVector sinks_;                      // of shape_; none: there are none
  DeviceVector wide_q_norm_, wide_k_norm_;  // of all heads
  DeviceVector value_norm_;                 // of a head: ones; none: values stay as they are
  std::unique_ptr<Weight> qkv_, output_;
  std::unique_ptr<Weight> gate_;  // null: none
  int32_t plane_ = -1;
};

}  // namespace ashlar
