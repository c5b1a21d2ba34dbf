// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device with a memory of its own, for tests that hold tensors, rows and caches in the host's: each op copies what it
// is given to the device, as the device's type of activations, and what it wrote back. Around every tensor on the
// device lie values that are no numbers; an op that changes one aborts.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/machine/available_memory.h"
#include "device/ops.h"

namespace ashlar::conformance {

class StagedOps final : public Ops {
 public:
  explicit StagedOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  std::string isa() const override { return inner_->isa(); }
  int32_t threads() const override { return inner_->threads(); }
  DType activation_type() const override { return inner_->activation_type(); }
  AvailableMemory available_memory() const override { return inner_->available_memory(); }
  /// Host memory with a twin on the device.
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse use) override { return inner_->pack(source, use); }
  std::unique_ptr<Weight> repack(const Weight& weight, Products products) override {
    return inner_->repack(weight, products);
  }
  std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) override {
    return inner_->pack_experts(experts);
  }
  int64_t kv_page_bytes(const AttentionShape& shape) const override { return inner_->kv_page_bytes(shape); }

  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override;
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override;
  /// What is overwritten comes back as fp32.
  void linear(const Weight& weight, Input in, Store store, Tensor out) override;
  void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) override;
  void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) override;
  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override;
  void reduce_add(Tensor partial, Tensor residual) override;
  void route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) override;
  void mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) override;
  void store_kv(Tensor qkv, const KvStore& to) override;
  void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                 KvPlane plane) override;
  void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                 Tensor out) override;
  void sigmoid_gate(Tensor gate, Tensor x) override;
  void gelu_gate(Tensor gate, Tensor x) override;
  void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) override;
  void short_conv(Tensor in, const ShortConv& conv, Tensor out) override;
  void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                    Tensor out) override;
  void find_candidates(Tensor logits, Candidates out) override;
  void score_edges(const CandidateEdges& edges, Tensor out) override;
  void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) override;
  void gather_rows(Tensor x, const int32_t* indices, Tensor out) override;
  void copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) override;
  void copy(Tensor x, Tensor out) override;
  void visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) override;
  void scale(Tensor x, float factor) override;
  void softcap(Tensor x, float limit) override;
  void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) override;
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override;
  void upload(const void* from, std::byte* to, size_t bytes) override;
  void download(const std::byte* from, void* to, size_t bytes) override;
  void for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) override {
    inner_->for_each(n, fn, context);
  }

 private:
  class TwinBuffer;
  class StagedTensor;
  template <class Plane>
  class StagedPlane;
  struct StagedRows;

  std::unique_ptr<Ops> inner_;
  std::map<const std::byte*, TwinBuffer*> twins_;  // by where they begin in host memory
};

}  // namespace ashlar::conformance
