// SPDX-License-Identifier: Apache-2.0
#pragma once
// The second half of a decoder layer: one gated MLP, or a mixture of them.

#include <memory>
#include <string>
#include <vector>

#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/config.h"

namespace ashlar {

/// Activations that the layers' MLPs share.
struct MlpWorkspace {
  Tensor normed;   ///< [max_rows, hidden]
  Tensor gate_up;  ///< [max_rows, 2 * width of the widest]; none but for GELU
  Tensor scores;   ///< [max_rows, n_experts]; none without a mixture
  Routes routes;   ///< [max_rows, top_k]
  Tensor shared;   ///< [max_rows, hidden]; where a shared expert has a gate, or a mixture stands next to a dense MLP
  Tensor gates;    ///< [max_rows, 1]; of such a gate
  Tensor zeros;    ///< [max_rows, hidden], every row the same one; where there is `shared`
};

class Mlp {
 public:
  virtual ~Mlp() = default;
  /// x += mlp(in). Both [rows, hidden]; x may be in. A mixture wants a norm with it.
  virtual void forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const = 0;
  virtual size_t bytes() const = 0;
};

/// down(silu(gate(x)) * up(x)).
class DenseMlp final : public Mlp {
 public:
  struct Names {
    std::string gate, up, down;
    std::string fused_gate_up = {};  ///< in place of the first two, unless it is empty

    std::vector<WeightBinder::Part> gate_up(int32_t width) const;
  };
  DenseMlp(WeightBinder& binder, const Names& names, int32_t hidden, int32_t width, bool bias);
  void forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const override;
  size_t bytes() const override { return gate_up_->bytes() + down_->bytes(); }

 private:
  std::unique_ptr<Weight> gate_up_, down_;
};

/// down(gelu(gate(x)) * up(x)), in three steps.
class GeluMlp final : public Mlp {
 public:
  GeluMlp(WeightBinder& binder, const DenseMlp::Names& names, int32_t hidden, int32_t width, bool bias);
  void forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const override;
  size_t bytes() const override { return gate_up_->bytes() + down_->bytes(); }

 private:
  int32_t width_;
  std::unique_ptr<Weight> gate_up_, down_;
};

/// A router's choice of experts, weighted, and the shared expert if there is one. The router's product is in fp32
/// whatever its weights are stored in: a choice between near equals should not hang on the device's rounding.
class MoeMlp final : public Mlp {
 public:
  /// `base`: the layer's prefix. Experts lie in a tensor each, or merged: all of a kind in one [n_experts, out, in].
  MoeMlp(WeightBinder& binder, const std::string& base, const StackConfig& config);
  void forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const override;
  size_t bytes() const override;

 private:
  void add_shared(Ops& ops, Tensor normed, const MlpWorkspace& workspace, Tensor x) const;

  Routing routing_;
  std::unique_ptr<Weight> router_;
  DeviceVector bias_;
  std::unique_ptr<ExpertWeights> experts_;
  std::unique_ptr<DenseMlp> shared_;
  std::unique_ptr<Weight> shared_gate_;  // null: none
};

/// A dense MLP and a mixture that read the same rows, each with norms of its own (Gemma 4): norm_1(dense(in)) +
/// norm_2(mixture(norm(in.x))). What enters the router is normed as well, and multiplied by numbers of its own.
class DenseAndMoeMlp final : public Mlp {
 public:
  DenseAndMoeMlp(WeightBinder& binder, const std::string& base, const StackConfig& config, std::unique_ptr<Mlp> dense);
  /// x must not be in.x: both halves read that.
  void forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const override;
  size_t bytes() const override { return dense_->bytes() + router_->bytes() + experts_->bytes(); }

 private:
  Routing routing_;
  std::unique_ptr<Mlp> dense_;
  DeviceVector dense_output_norm_, experts_norm_, experts_output_norm_;
  DeviceVector router_norm_;  // [hidden], with the router's numbers / sqrt(hidden)
  std::unique_ptr<Weight> router_;
  DeviceVector expert_scale_;
  std::unique_ptr<ExpertWeights> experts_;
};

/// The MLP of layer `layer`.
std::unique_ptr<Mlp> bind_mlp(WeightBinder& binder, const std::string& base, const StackConfig& config, int32_t layer);

}  // namespace ashlar
