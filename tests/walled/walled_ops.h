// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device of the host's memory behind a wall, as a device with a memory of its own would be: the host cannot read or
// write what lies there, what ops are given must lie there, and an op runs only when its results are waited for. A pass
// whose key came before is what was asked for then, so that a key that leaves something out shows in the results.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/machine/available_memory.h"
#include "device/ops.h"

namespace ashlar::testing {

class WalledOps final : public Ops {
 public:
  /// "ref", or "cpu" with one thread.
  explicit WalledOps(const std::string& device = "ref");
  ~WalledOps() override;

  /// What crossed the wall, and what was done behind it.
  struct Counts {
    int64_t ops = 0;
    int64_t uploads = 0;
    int64_t waits = 0;  ///< for results
    int64_t passes = 0;
    int64_t repeated = 0;  ///< passes of these that were done without asking what is in them
  };
  const Counts& counts() const { return counts_; }

  std::string name() const override { return "walled"; }
  std::string isa() const override { return inner_->isa(); }
  int32_t threads() const override { return 1; }
  int32_t rows_at_once() const override { return 1024; }
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  /// As much as the host has, or what own_memory() says.
  AvailableMemory available_memory() const override { return own_ ? *own_ : inner_->available_memory(); }
  void own_memory(const AvailableMemory& memory) { own_ = memory; }
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
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override;
  void upload(const void* from, std::byte* to, size_t bytes) override;
  void download(const std::byte* from, void* to, size_t bytes) override;
  void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) override;
  void run_pass(const PassKey& key, const std::function<void()>& pass) override;
  void for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) override;

  /// Runs what was asked for and has not been done.
  void wait();

 private:
  class WalledBuffer;
  void later(std::function<void()> op);

  std::unique_ptr<Ops> inner_;
  std::optional<AvailableMemory> own_;
  std::vector<std::function<void()>> queue_;
  std::unordered_map<PassKey, std::vector<std::function<void()>>, PassKey::Hash> passes_;
  bool in_pass_ = false;
  Counts counts_;
};

}  // namespace ashlar::testing
