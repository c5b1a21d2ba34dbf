// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device that notes what each op takes, reads, writes and multiplies.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/forwarded_ops.h"

namespace ashlar {

/// An op as it ran. Bytes are what it cannot do without: each weight once, rows that come and go, keys and values that
/// its rows see; what stays within the op, as between the two products of an MLP, is not counted.
struct OpCall {
  std::string op;        ///< with the shape of its weight: "linear 1024 -> 2048"
  int64_t read = 0;      ///< bytes
  int64_t written = 0;   ///< bytes
  int64_t products = 0;  ///< multiplications and additions; 0: it is no product
  int64_t begin_ns = 0;  ///< monotonic time of the host when it was asked for
  double seconds = 0;
};

class TimedOps final : public ForwardedOps {
 public:
  using ForwardedOps::ForwardedOps;

  /// From now on ops are timed, until take(). On a device with a clock of its own (Ops::device_probe) by that. The
  /// host waits for the device at visibility() alone, to know what rows see; passes are not repeated from recordings
  /// meanwhile.
  void record();
  /// What ran since record(). Waits for the device.
  std::vector<OpCall> take();

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
  void linear_kv(const Weight& weight, Input in, Tensor qkv, const KvStore& to) override;
  void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                 KvPlane plane) override;
  void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                 Tensor out) override;
  void self_attention(const SelfAttention& call, Tensor out) override;
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
  void upload(const void* from, std::byte* to, size_t bytes) override;
  void download(const std::byte* from, void* to, size_t bytes) override;
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override;
  void run_pass(const PassKey& key, const std::function<void()>& pass) override;
  void for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) override;

 private:
  /// What rows see, as the device found it.
  struct Seen {
    std::vector<int32_t> begins, ends, tables;
  };
  /// Keys that rows see.
  struct Keys {
    int64_t read = 0;   ///< each once for all rows of a sequence
    int64_t pairs = 0;  ///< with a row each
  };

  template <class Body>
  void timed(OpCall call, const Body& body);
  Keys keys_of(const Rows& rows, Visibility visible) const;
  OpCall attention_call(const AttentionShape& shape, const Rows& rows, Visibility visible) const;
  int64_t kv_bytes(const AttentionShape& shape, int64_t tokens) const;

  bool records_ = false;
  std::unique_ptr<DeviceProbe> probe_;  // null: the host's own memory, or record() was never called
  bool asked_for_probe_ = false;
  std::vector<OpCall> calls_;
  std::map<const int32_t*, Seen> seen_;  // by where it begins in the device's memory
};

}  // namespace ashlar
