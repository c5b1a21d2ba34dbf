// SPDX-License-Identifier: Apache-2.0
#pragma once
// The class that make_cuda_ops() makes.

#include <cstddef>
#include <vector>

#include "device/cuda/choose/cuda_adjust.h"
#include "device/cuda/choose/cuda_statistics.h"
#include "device/cuda/choose/cuda_survey.h"
#include "device/cuda/cuda_graphs.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_weight.h"
#include "device/cuda/kernels.h"
#include "device/cuda/recurrent/state_rows.h"
#include "device/device.h"
#include "device/sampling/sampler.h"

namespace ashlar::cuda {

inline Matrix matrix_of(Tensor tensor) {
  return {tensor.data, tensor.rows, tensor.cols, tensor.stride, tensor.dtype == DType::kF32};
}

static_assert(sizeof(Span) == sizeof(StateSpan) && offsetof(Span, replays) == offsetof(StateSpan, replays) &&
              offsetof(Span, choices) == offsetof(StateSpan, choices) &&
              offsetof(Span, saves) == offsetof(StateSpan, saves));

inline StateRows state_rows(const Rows& rows, const StatePlane& states) {
  return {rows.n,
          rows.positions,
          rows.tables,
          reinterpret_cast<const Span*>(rows.states),
          reinterpret_cast<char*>(states.base),
          states.stride,
          states.log_stride,
          states.slots,
          states.log_rows};
}

class CudaOps final : public Ops {
 public:
  CudaOps(const DeviceOptions& options, int32_t device);

  std::string name() const override { return "cuda"; }
  std::string isa() const override { return isa_; }
  int32_t threads() const override { return pool_.size(); }
  int32_t rows_at_once() const override { return 64; }
  int32_t prompt_rows() const override { return 2048; }
  DType activation_type() const override { return DType::kBF16; }

  std::unique_ptr<Buffer> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  AvailableMemory available_memory() const override { return memory_.available(); }
  std::unique_ptr<DeviceProbe> device_probe(int64_t bytes) override;
  std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse use) override;
  int64_t kept_bytes(Scheme scheme, Products products, int64_t count) const override;
  std::unique_ptr<Weight> repack(const Weight& /*weight*/, Products /*products*/) override { return nullptr; }
  std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) override;

  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override;
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override;
  void linear(const Weight& weight, Input in, Store store, Tensor out) override;
  void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) override;
  void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) override;
  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override;
  void reduce_add(Tensor partial, Tensor residual) override;
  void route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) override;
  void mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) override;
  int64_t kv_page_bytes(const AttentionShape& shape) const override;
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
  void upload(const void* from, std::byte* to, size_t bytes) override { memory_.upload(from, to, bytes); }
  void download(const std::byte* from, void* to, size_t bytes) override { memory_.download(from, to, bytes); }
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override { memory_.copy(from, to, bytes); }
  void run_pass(const PassKey& key, const std::function<void()>& pass) override { graphs_.run(key, pass); }
  void for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) override;

 private:
  /// What enters a product: rows as they are, or their norms in normed_.
  Tensor entering(const Input& in);
  /// tile: places of a tile, for weights whose calls are grouped by them (tile_rows).
  void product(const ProductCall& call, int32_t tile);
  /// The same with weights of few bits, for many rows: their values in bf16 first, some outputs at a time.
  void product_expanded(ProductCall call, int32_t tile);
  /// x_rows: rows of x that may be read.
  void linear_of(const CudaWeight& weight, Tensor x, int32_t x_rows, Store store, Tensor out);
  /// Logits of some rows of x at a time: work(first, logits).
  template <class Work>
  void for_logits(const Weight& weight, Tensor x, const Work& work);
  void choose_highest(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices);
  void choose_surveyed(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices);
  void choose_on_host(Tensor logits, int32_t first, std::span<const int32_t> which,
                      std::span<const RowRequest> requests, std::span<RowChoice> choices);
  void mix_some(const CudaExperts& experts, Tensor x, Routes routes, Tensor out);

  KeptWeights kept_for(Products products) const { return products == Products::kPropose ? kept_for_drafts_ : kept_; }

  std::string isa_;
  KeptWeights kept_;
  KeptWeights kept_for_drafts_;
  const KvCodec* codec_;  ///< of values in the cache; null: there are no codes
  KvNumbers kv_numbers_;
  int32_t hopper_multiprocessors_;  ///< 0: not compute capability 9.0
  ThreadPool pool_;                 ///< of the host
  Memory memory_;
  Graphs graphs_;
  // Each is of one op at a time.
  Scratch normed_, gathered_, gated_, logits_, answers_, places_, segments_, arrivals_, prepared_rows_, expanded_;
  int32_t max_position_ = 0;  ///< positions of any row are below it: that of the largest rope table so far
  Adjuster adjuster_;
  Surveyor surveyor_;
  TileFolder folder_;
  // Of the host, within choose(): requests by who answers them, rows of those that the GPU answers, the surveys of
  // others, and for rows that the host decides what it works on.
  struct Surveyed {
    int32_t request, raw, likely, draw, statistics;  ///< surveys, and of the folder; -1: none
  };
  std::vector<int32_t> highest_, decided_, rows_;
  std::vector<Surveyed> surveyed_;
  std::vector<std::vector<Placed>> drafted_;  ///< distributions that filters leave, of those surveyed
  std::vector<Placed> placed_;
  std::vector<RowRequest> local_;
  std::vector<RowChoice> found_;
  std::vector<float> distributions_;
  std::vector<SamplerScratch> sampler_scratch_;  // per thread
};

}  // namespace ashlar::cuda
