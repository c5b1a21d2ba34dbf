// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device that hands its work to another one: for devices that change or watch a part of it.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/machine/available_memory.h"
#include "device/ops.h"

namespace ashlar {

class ForwardedOps : public Ops {
 public:
  /// `ops` outlives this.
  explicit ForwardedOps(Ops& ops) : ops_(ops) {}

  std::string name() const override { return ops_.name(); }
  std::string isa() const override { return ops_.isa(); }
  int32_t threads() const override { return ops_.threads(); }
  int32_t rows_at_once() const override { return ops_.rows_at_once(); }
  int32_t prompt_rows() const override { return ops_.prompt_rows(); }
  DType activation_type() const override { return ops_.activation_type(); }
  std::unique_ptr<Buffer> allocate(size_t bytes) override { return ops_.allocate(bytes); }
  AvailableMemory available_memory() const override { return ops_.available_memory(); }
  std::unique_ptr<DeviceProbe> device_probe(int64_t bytes) override { return ops_.device_probe(bytes); }
  std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse use) override { return ops_.pack(source, use); }
  int64_t kept_bytes(Scheme scheme, Products products, int64_t count) const override {
    return ops_.kept_bytes(scheme, products, count);
  }
  std::unique_ptr<Weight> repack(const Weight& weight, Products products) override {
    return ops_.repack(weight, products);
  }
  std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) override {
    return ops_.pack_experts(experts);
  }
  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override {
    ops_.embed(table, ids, scale, out);
  }
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override { ops_.rms_norm(x, weight, eps, out); }
  void linear(const Weight& weight, Input in, Store store, Tensor out) override { ops_.linear(weight, in, store, out); }
  void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) override { ops_.linear_argmax(weight, x, ids); }
  void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) override {
    ops_.linear_statistics(weight, x, without, out);
  }
  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override {
    ops_.gated_mlp(gate_up, down, in, out);
  }
  void reduce_add(Tensor partial, Tensor residual) override { ops_.reduce_add(partial, residual); }
  void route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) override {
    ops_.route(logits, factors, routing, routes);
  }
  void mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) override {
    ops_.mix_experts(experts, x, routes, out);
  }
  int64_t kv_page_bytes(const AttentionShape& shape) const override { return ops_.kv_page_bytes(shape); }
  void store_kv(Tensor qkv, const KvStore& to) override { ops_.store_kv(qkv, to); }
  void linear_kv(const Weight& weight, Input in, Tensor qkv, const KvStore& to) override {
    ops_.linear_kv(weight, in, qkv, to);
  }
  void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                 KvPlane plane) override {
    ops_.commit_kv(shape, branch, page_table, plane);
  }
  void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                 Tensor out) override {
    ops_.attention(q, shape, rows, visible, plane, out);
  }
  void self_attention(const SelfAttention& call, Tensor out) override { ops_.self_attention(call, out); }
  void sigmoid_gate(Tensor gate, Tensor x) override { ops_.sigmoid_gate(gate, x); }
  void gelu_gate(Tensor gate, Tensor x) override { ops_.gelu_gate(gate, x); }
  void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) override { ops_.gated_delta_net(in, net, out); }
  void short_conv(Tensor in, const ShortConv& conv, Tensor out) override { ops_.short_conv(in, conv, out); }
  void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                    Tensor out) override {
    ops_.grouped_conv(x, dynamic, conv, tables, store, out);
  }
  void find_candidates(Tensor logits, Candidates out) override { ops_.find_candidates(logits, out); }
  void score_edges(const CandidateEdges& edges, Tensor out) override { ops_.score_edges(edges, out); }
  void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) override {
    ops_.candidate_attention(qkv, call, out);
  }
  void gather_rows(Tensor x, const int32_t* indices, Tensor out) override { ops_.gather_rows(x, indices, out); }
  void copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) override {
    ops_.copy_rows(x, from, to, n, out);
  }
  void copy(Tensor x, Tensor out) override { ops_.copy(x, out); }
  void visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) override {
    ops_.visibility(rows, window, causal, begin, end);
  }
  void scale(Tensor x, float factor) override { ops_.scale(x, factor); }
  void softcap(Tensor x, float limit) override { ops_.softcap(x, limit); }
  void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) override {
    ops_.choose(logits, requests, choices);
  }
  void upload(const void* from, std::byte* to, size_t bytes) override { ops_.upload(from, to, bytes); }
  void download(const std::byte* from, void* to, size_t bytes) override { ops_.download(from, to, bytes); }
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override { ops_.copy_bytes(from, to, bytes); }
  void run_pass(const PassKey& key, const std::function<void()>& pass) override { ops_.run_pass(key, pass); }
  void for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) override {
    ops_.for_each(n, fn, context);
  }

 protected:
  Ops& inner() { return ops_; }

 private:
  Ops& ops_;
};

}  // namespace ashlar
