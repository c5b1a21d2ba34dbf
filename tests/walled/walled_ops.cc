// SPDX-License-Identifier: Apache-2.0
#include "walled/walled_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/device.h"

namespace ashlar::testing {
namespace {

// Added to every address that leaves the device: x86-64 has no memory there, so that the host cannot follow it.
constexpr uintptr_t kWall = uintptr_t{1} << 62;

template <class T>
T* closed(T* at) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(at) + kWall);
}

// The address behind the wall. Aborts for one of the host's.
template <class T>
T* opened(T* at) {
  if (at == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(at);
  const bool address_is_the_devices = address >= kWall;
  ASHLAR_CHECK(address_is_the_devices);
  return reinterpret_cast<T*>(address - kWall);
}

Tensor opened(Tensor tensor) {
  tensor.data = opened(tensor.data);
  return tensor;
}

Input opened(Input in) {
  in.x = opened(in.x);
  in.norm = opened(in.norm);
  return in;
}

KvPlane opened(KvPlane plane) {
  plane.base = opened(plane.base);
  return plane;
}

StatePlane opened(StatePlane plane) {
  plane.base = opened(plane.base);
  return plane;
}

DeltaWeights opened(DeltaWeights weights) {
  weights.taps = opened(weights.taps);
  weights.decay = opened(weights.decay);
  weights.bias = opened(weights.bias);
  weights.norm = opened(weights.norm);
  return weights;
}

Routes opened(Routes routes) {
  routes.experts = opened(routes.experts);
  routes.weights = opened(routes.weights);
  return routes;
}

// Rows, and what they point to that points on.
struct OpenRows {
  Rows rows;
  std::vector<const int32_t*> page_tables;
  std::vector<BranchTable> branch_tables;

  explicit OpenRows(const Rows& walled) : rows(walled) {
    rows.ids = opened(walled.ids);
    rows.positions = opened(walled.positions);
    rows.tables = opened(walled.tables);
    rows.without_kv = opened(walled.without_kv);
    rows.scratch_slots = opened(walled.scratch_slots);
    rows.states = opened(walled.states);
    rows.block_ends = opened(walled.block_ends);
    rows.first_keys = opened(walled.first_keys);
    const int32_t tables = rows.n == 0 ? 0 : 1 + *std::max_element(rows.tables, rows.tables + rows.n);
    for (int32_t t = 0; t < tables; ++t) page_tables.push_back(opened(opened(walled.page_tables)[t]));
    rows.page_tables = page_tables.data();
    if (walled.branch_tables == nullptr) return;
    for (int32_t t = 0; t < tables; ++t) {
      branch_tables.push_back(opened(walled.branch_tables)[t]);
      branch_tables.back().slots = opened(branch_tables.back().slots);
    }
    rows.branch_tables = branch_tables.data();
  }
};

}  // namespace

class WalledOps::WalledBuffer final : public Buffer {
 public:
  WalledBuffer(WalledOps& ops, std::unique_ptr<Buffer> memory) : ops_(ops), memory_(std::move(memory)) {}
  ~WalledBuffer() override {
    ops_.wait();  // ops that were asked for may use it
    ops_.passes_.clear();
  }
  std::byte* data() override { return closed(memory_->data()); }
  size_t size() const override { return memory_->size(); }

 private:
  WalledOps& ops_;
  std::unique_ptr<Buffer> memory_;
};

WalledOps::WalledOps(const std::string& device) : inner_(make_device(device, {.threads = 1, .isa = {}})) {}
WalledOps::~WalledOps() { wait(); }

std::unique_ptr<Buffer> WalledOps::allocate(size_t bytes) {
  ASHLAR_CHECK(!in_pass_);
  return std::make_unique<WalledBuffer>(*this, inner_->allocate(bytes));
}

void WalledOps::later(std::function<void()> op) {
  ++counts_.ops;
  queue_.push_back(std::move(op));
}

void WalledOps::wait() {
  ASHLAR_CHECK(!in_pass_);
  for (const std::function<void()>& op : queue_) op();
  queue_.clear();
}

void WalledOps::embed(const Weight& table, const int32_t* ids, float scale, Tensor out) {
  later([this, &table, ids, scale, out] { inner_->embed(table, opened(ids), scale, opened(out)); });
}

void WalledOps::rms_norm(Tensor x, const float* weight, float eps, Tensor out) {
  later([=, this] { inner_->rms_norm(opened(x), opened(weight), eps, opened(out)); });
}

void WalledOps::linear(const Weight& weight, Input in, Store store, Tensor out) {
  later([this, &weight, in, store, out] { inner_->linear(weight, opened(in), store, opened(out)); });
}

void WalledOps::linear_argmax(const Weight& weight, Tensor x, int32_t* ids) {
  later([this, &weight, x, ids] { inner_->linear_argmax(weight, opened(x), opened(ids)); });
}

void WalledOps::linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) {
  later([this, &weight, x, without, out] { inner_->linear_statistics(weight, opened(x), without, opened(out)); });
}

void WalledOps::gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) {
  later([this, &gate_up, &down, in, out] { inner_->gated_mlp(gate_up, down, opened(in), opened(out)); });
}

void WalledOps::reduce_add(Tensor partial, Tensor residual) {
  later([=, this] { inner_->reduce_add(opened(partial), opened(residual)); });
}

void WalledOps::route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) {
  later([=, this] {
    inner_->route(opened(logits), {opened(factors.bias), opened(factors.scale)}, routing, opened(routes));
  });
}

void WalledOps::mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) {
  later([this, &experts, x, routes, out] { inner_->mix_experts(experts, opened(x), opened(routes), opened(out)); });
}

void WalledOps::store_kv(Tensor qkv, const KvStore& to) {
  later([this, qkv, shape = to.shape, q_norm = to.q_norm, k_norm = to.k_norm, eps = to.eps, rope = to.rope,
         rows = to.rows, plane = to.plane] {
    const OpenRows open(rows);
    RopeTable table = rope;
    table.cos = opened(rope.cos);
    table.sin = opened(rope.sin);
    table.query_scales = opened(rope.query_scales);
    inner_->store_kv(opened(qkv), {shape, opened(q_norm), opened(k_norm), eps, table, open.rows, opened(plane)});
  });
}

void WalledOps::commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                          KvPlane plane) {
  later([=, this] {
    BranchTable open = branch;
    open.slots = opened(branch.slots);
    inner_->commit_kv(shape, open, opened(page_table), opened(plane));
  });
}

void WalledOps::attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                          Tensor out) {
  later([=, this] {
    const OpenRows open(rows);
    AttentionShape open_shape = shape;
    open_shape.sinks = opened(shape.sinks);
    inner_->attention(opened(q), open_shape, open.rows, {opened(visible.begin), opened(visible.end)}, opened(plane),
                      opened(out));
  });
}

void WalledOps::sigmoid_gate(Tensor gate, Tensor x) {
  later([=, this] { inner_->sigmoid_gate(opened(gate), opened(x)); });
}

void WalledOps::gelu_gate(Tensor gate, Tensor x) {
  later([=, this] { inner_->gelu_gate(opened(gate), opened(x)); });
}

void WalledOps::gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) {
  later([this, in, shape = net.shape, weights = net.weights, rows = net.rows, states = net.states, out] {
    const OpenRows open(rows);
    inner_->gated_delta_net(opened(in), {shape, opened(weights), open.rows, opened(states)}, opened(out));
  });
}

void WalledOps::short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  later(
      [this, in, shape = conv.shape, taps = conv.taps, bias = conv.bias, rows = conv.rows, states = conv.states, out] {
        const OpenRows open(rows);
        inner_->short_conv(opened(in), {shape, opened(taps), opened(bias), open.rows, opened(states)}, opened(out));
      });
}

void WalledOps::grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                             Tensor out) {
  later([=, this] {
    const GroupedConv open = {conv.taps, conv.group, opened(conv.base)};
    inner_->grouped_conv(opened(x), opened(dynamic), open, opened(tables), store, opened(out));
  });
}

void WalledOps::find_candidates(Tensor logits, Candidates out) {
  later([=, this] { inner_->find_candidates(opened(logits), {out.n, opened(out.ids), opened(out.logits)}); });
}

void WalledOps::score_edges(const CandidateEdges& edges, Tensor out) {
  later([=, this] {
    const Candidates& of = edges.candidates;
    inner_->score_edges({{of.n, opened(of.ids), opened(of.logits)},
                         opened(edges.begins),
                         opened(edges.anchors),
                         opened(edges.before),
                         opened(edges.after),
                         opened(edges.hidden),
                         edges.scale},
                        opened(out));
  });
}

void WalledOps::candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) {
  later([=, this] {
    inner_->candidate_attention(
        opened(qkv), {call.n, call.heads, call.reach, opened(call.bias), opened(call.first), opened(call.end)},
        opened(out));
  });
}

void WalledOps::gather_rows(Tensor x, const int32_t* indices, Tensor out) {
  later([=, this] { inner_->gather_rows(opened(x), opened(indices), opened(out)); });
}

void WalledOps::copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) {
  later([=, this] { inner_->copy_rows(opened(x), opened(from), opened(to), n, opened(out)); });
}

void WalledOps::copy(Tensor x, Tensor out) {
  later([=, this] { inner_->copy(opened(x), opened(out)); });
}

void WalledOps::visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) {
  later([=, this] { inner_->visibility(OpenRows(rows).rows, window, causal, opened(begin), opened(end)); });
}

void WalledOps::scale(Tensor x, float factor) {
  later([=, this] { inner_->scale(opened(x), factor); });
}

void WalledOps::softcap(Tensor x, float limit) {
  later([=, this] { inner_->softcap(opened(x), limit); });
}

void WalledOps::copy_bytes(const std::byte* from, std::byte* to, size_t bytes) {
  ASHLAR_CHECK(!in_pass_);
  later([=, this] { inner_->copy_bytes(opened(from), opened(to), bytes); });
}

void WalledOps::upload(const void* from, std::byte* to, size_t bytes) {
  ASHLAR_CHECK(!in_pass_);
  ++counts_.uploads;
  const auto* const first = static_cast<const std::byte*>(from);
  later([to, data = std::vector<std::byte>(first, first + bytes)] {
    if (!data.empty()) std::memcpy(opened(to), data.data(), data.size());
  });
}

void WalledOps::download(const std::byte* from, void* to, size_t bytes) {
  ++counts_.waits;
  wait();
  std::memcpy(to, opened(from), bytes);
}

void WalledOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  ++counts_.ops;
  ++counts_.waits;
  wait();
  std::vector<RowRequest> open(requests.begin(), requests.end());
  for (RowRequest& request : open) {
    request.draft_q = opened(request.draft_q);
    request.distribution = opened(request.distribution);
  }
  inner_->choose(opened(logits), open, choices);
}

void WalledOps::run_pass(const PassKey& key, const std::function<void()>& pass) {
  ASHLAR_CHECK(!in_pass_ && key.is_whole());
  ++counts_.passes;
  const auto found = passes_.find(key);
  if (found != passes_.end()) {
    ++counts_.repeated;
    counts_.ops += static_cast<int64_t>(found->second.size());
    queue_.insert(queue_.end(), found->second.begin(), found->second.end());
    return;
  }
  const auto first = static_cast<int64_t>(queue_.size());
  in_pass_ = true;
  try {
    pass();
  } catch (...) {
    in_pass_ = false;
    throw;
  }
  in_pass_ = false;
  passes_[key] = {queue_.begin() + first, queue_.end()};
}

void WalledOps::for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) {
  for (int32_t i = 0; i < n; ++i) fn(context, i);
}

}  // namespace ashlar::testing
