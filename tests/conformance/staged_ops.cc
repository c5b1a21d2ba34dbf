#include "staged_ops.h"

#include <algorithm>
#include <cstring>

#include "base/bf16.h"

namespace ashlar::conformance {
namespace {

/// Values of the host on the device.
template <class T>
class StagedArray {
 public:
  StagedArray(Ops& ops, T* host, size_t n) : ops_(ops), host_(host), n_(host == nullptr ? 0 : n) {
    if (host == nullptr) return;
    memory_ = ops.allocate(sizeof(T) * std::max(n, size_t{1}));
    ops.upload(host, memory_->data(), sizeof(T) * n);
  }
  T* device() const { return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_->data()); }
  void fetch() { ops_.download(memory_->data(), const_cast<std::remove_const_t<T>*>(host_), sizeof(T) * n_); }

 private:
  Ops& ops_;
  T* host_;
  size_t n_;
  std::unique_ptr<Buffer> memory_;
};

template <class T>
StagedArray<T> staged(Ops& ops, T* host, int64_t n) {
  return StagedArray<T>(ops, host, static_cast<size_t>(n));
}

}  // namespace

class StagedOps::TwinBuffer final : public Buffer {
 public:
  TwinBuffer(StagedOps& ops, size_t bytes)
      : ops_(ops), host_(bytes + 64), size_(bytes), twin_(ops.inner_->allocate(bytes)) {
    const auto address = reinterpret_cast<uintptr_t>(host_.data());
    data_ = host_.data() + (64 - address % 64) % 64;
    ASHLAR_CHECK_EQ(reinterpret_cast<uintptr_t>(twin_->data()) % 64, 0U);
    fetch();
    ops_.twins_[data_] = this;
  }
  ~TwinBuffer() override { ops_.twins_.erase(data_); }
  std::byte* data() override { return data_; }
  size_t size() const override { return size_; }

  std::byte* twin() { return twin_->data(); }
  void send() { ops_.inner_->upload(data_, twin_->data(), size_); }
  void fetch() { ops_.inner_->download(twin_->data(), data_, size_); }

 private:
  StagedOps& ops_;
  std::vector<std::byte> host_;
  size_t size_;
  std::byte* data_;
  std::unique_ptr<Buffer> twin_;
};

/// A tensor of the host on the device, as far off an alignment as it is here.
class StagedOps::StagedTensor {
 public:
  StagedTensor(Ops& ops, Tensor host, DType type) : ops_(ops), host_(host), type_(type) {
    lead_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(host.data) / sizeof(float) % 8);
    const int64_t elements = lead_ + host.rows * host.stride + 8;
    image_.resize(static_cast<size_t>(elements) * bytes_of(type));
    for (int64_t i = 0; i < elements; ++i) put(i, kGuard);
    for_elements([&](int64_t at, float& value) {
      put(at, type == DType::kF32 ? std::bit_cast<uint32_t>(value) : to_bf16(value).bits);
    });
    memory_ = ops.allocate(image_.size());
    ops.upload(image_.data(), memory_->data(), image_.size());
  }
  Tensor device() const {
    return {memory_->data() + static_cast<size_t>(lead_) * bytes_of(type_), host_.rows, host_.cols, host_.stride,
            type_};
  }
  void fetch() {
    ops_.download(memory_->data(), image_.data(), image_.size());
    for_elements([&](int64_t at, float& value) {
      value = type_ == DType::kF32 ? std::bit_cast<float>(get(at)) : to_float(BFloat16{static_cast<uint16_t>(get(at))});
      put(at, kGuard);
    });
    for (size_t i = 0; i < image_.size() / bytes_of(type_); ++i) {
      const bool nothing_else_was_written =
          get(static_cast<int64_t>(i)) == (type_ == DType::kF32 ? kGuard : kGuard & 0xFFFF);
      ASHLAR_CHECK(nothing_else_was_written);
    }
  }

 private:
  static constexpr uint32_t kGuard = 0x7FC17FC1;  // no number, in either type

  template <class Fn>
  void for_elements(const Fn& fn) {
    for (int32_t r = 0; r < host_.rows; ++r) {
      for (int32_t c = 0; c < host_.cols; ++c) fn(lead_ + r * host_.stride + c, host_.row(r)[c]);
    }
  }
  void put(int64_t at, uint32_t bits) {
    std::memcpy(&image_[static_cast<size_t>(at) * bytes_of(type_)], &bits, bytes_of(type_));
  }
  uint32_t get(int64_t at) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &image_[static_cast<size_t>(at) * bytes_of(type_)], bytes_of(type_));
    return bits;
  }

  Ops& ops_;
  Tensor host_;
  DType type_;
  int64_t lead_;
  std::vector<std::byte> image_;
  std::unique_ptr<Buffer> memory_;
};

/// Pages or states in a buffer of this device.
template <class Plane>
class StagedOps::StagedPlane {
 public:
  StagedPlane(StagedOps& ops, const Plane& host) : device_(host) {
    const auto after = ops.twins_.upper_bound(host.base);
    ASHLAR_CHECK(after != ops.twins_.begin());
    buffer_ = std::prev(after)->second;
    buffer_->send();
    device_.base = buffer_->twin() + (host.base - buffer_->data());
  }
  const Plane& device() const { return device_; }
  void fetch() { buffer_->fetch(); }

 private:
  TwinBuffer* buffer_;
  Plane device_;
};

/// Rows, and what they point to that points on. ends: positions that each row's page table must reach; null: their own.
struct StagedOps::StagedRows {
  StagedRows(Ops& ops, const Rows& host, const int32_t* ends) : rows(host) {
    const auto keep = [&](auto* values, int64_t n) {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
      if (values == nullptr) return static_cast<const T*>(nullptr);
      memory.push_back(ops.allocate(sizeof(T) * static_cast<size_t>(std::max<int64_t>(n, 1))));
      ops.upload(values, memory.back()->data(), sizeof(T) * static_cast<size_t>(n));
      return reinterpret_cast<const T*>(memory.back()->data());
    };
    const int32_t tables = host.n == 0 ? 0 : 1 + *std::max_element(host.tables, host.tables + host.n);
    std::vector<int32_t> pages(static_cast<size_t>(tables));
    for (int32_t r = 0; r < host.n; ++r) {
      if (ends == nullptr && (host.is_without_kv(r) || host.scratch_slot(r) >= 0)) continue;
      const int32_t end = ends != nullptr ? ends[r] : host.positions[r] + 1;
      int32_t& most = pages[static_cast<size_t>(host.tables[r])];
      most = std::max(most, (end + kPageTokens - 1) / kPageTokens);
    }
    std::vector<const int32_t*> page_tables;
    for (int32_t t = 0; t < tables && host.page_tables != nullptr; ++t) {
      page_tables.push_back(keep(host.page_tables[t], pages[static_cast<size_t>(t)]));
    }
    std::vector<BranchTable> branches;
    for (int32_t t = 0; t < tables && host.branch_tables != nullptr; ++t) {
      branches.push_back(host.branch_tables[t]);
      branches.back().slots = keep(branches.back().slots, branches.back().n);
    }
    rows.ids = nullptr;
    rows.positions = keep(host.positions, host.n);
    rows.tables = keep(host.tables, host.n);
    rows.page_tables = keep(page_tables.data(), tables);
    rows.without_kv = keep(host.without_kv, host.n);
    rows.scratch_slots = keep(host.scratch_slots, host.n);
    rows.branch_tables = host.branch_tables != nullptr ? keep(branches.data(), tables) : nullptr;
    rows.states = keep(host.states, tables);
    rows.block_ends = keep(host.block_ends, host.n);
    rows.first_keys = keep(host.first_keys, tables);
  }
  Rows rows;
  std::vector<std::unique_ptr<Buffer>> memory;
};

std::unique_ptr<Buffer> StagedOps::allocate(size_t bytes) { return std::make_unique<TwinBuffer>(*this, bytes); }

void StagedOps::embed(const Weight& table, const int32_t* ids, float scale, Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  inner_->embed(table, staged(*inner_, ids, out.rows).device(), scale, to.device());
  to.fetch();
}

void StagedOps::rms_norm(Tensor x, const float* weight, float eps, Tensor out) {
  StagedTensor from(*inner_, x, activation_type()), to(*inner_, out, activation_type());
  const bool in_place = x.data == out.data;
  inner_->rms_norm(in_place ? to.device() : from.device(), staged(*inner_, weight, x.cols).device(), eps, to.device());
  to.fetch();
}

void StagedOps::linear(const Weight& weight, Input in, Store store, Tensor out) {
  const StagedTensor x(*inner_, in.x, activation_type());
  StagedTensor to(*inner_, out, store == Store::kAdd ? activation_type() : DType::kF32);
  const auto norm = staged(*inner_, in.norm, in.x.cols);
  inner_->linear(weight, {x.device(), norm.device(), in.eps}, store, to.device());
  to.fetch();
}

void StagedOps::linear_argmax(const Weight& weight, Tensor x, int32_t* ids) {
  auto to = staged(*inner_, ids, x.rows);
  inner_->linear_argmax(weight, StagedTensor(*inner_, x, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) {
  auto to = staged(*inner_, out, x.rows);
  inner_->linear_statistics(weight, StagedTensor(*inner_, x, activation_type()).device(), without, to.device());
  to.fetch();
}

void StagedOps::gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) {
  const StagedTensor x(*inner_, in.x, activation_type());
  StagedTensor to(*inner_, out, activation_type());
  const auto norm = staged(*inner_, in.norm, in.x.cols);
  const Tensor from = in.x.data == out.data ? to.device() : x.device();
  inner_->gated_mlp(gate_up, down, {from, norm.device(), in.eps}, to.device());
  to.fetch();
}

void StagedOps::reduce_add(Tensor partial, Tensor residual) {
  StagedTensor to(*inner_, residual, activation_type());
  inner_->reduce_add(StagedTensor(*inner_, partial, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::route(Tensor logits, const float* bias, const Routing& routing, Routes routes) {
  const int64_t n = int64_t{logits.rows} * routes.top_k;
  auto experts = staged(*inner_, routes.experts, n);
  auto weights = staged(*inner_, routes.weights, n);
  inner_->route(StagedTensor(*inner_, logits, DType::kF32).device(), staged(*inner_, bias, logits.cols).device(),
                routing, {routes.top_k, experts.device(), weights.device()});
  experts.fetch();
  weights.fetch();
}

void StagedOps::mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) {
  const int64_t n = int64_t{x.rows} * routes.top_k;
  const auto chosen = staged(*inner_, routes.experts, n);
  const auto weights = staged(*inner_, routes.weights, n);
  StagedTensor to(*inner_, out, activation_type());
  inner_->mix_experts(experts, StagedTensor(*inner_, x, activation_type()).device(),
                      {routes.top_k, chosen.device(), weights.device()}, to.device());
  to.fetch();
}

void StagedOps::store_kv(Tensor qkv, const KvStore& to) {
  StagedTensor rows(*inner_, qkv, activation_type());
  StagedPlane plane(*this, to.plane);
  const StagedRows list(*inner_, to.rows, nullptr);
  const auto q_norm = staged(*inner_, to.q_norm, to.shape.head_dim);
  const auto k_norm = staged(*inner_, to.k_norm, to.shape.head_dim);
  const int64_t angles = int64_t{to.rope.max_position} * (to.rope.rotary_dim / 2);
  const auto cos = staged(*inner_, to.rope.cos, angles);
  const auto sin = staged(*inner_, to.rope.sin, angles);
  const RopeTable rope = {cos.device(), sin.device(), to.rope.rotary_dim, to.rope.max_position};
  inner_->store_kv(rows.device(),
                   {to.shape, q_norm.device(), k_norm.device(), to.eps, rope, list.rows, plane.device()});
  rows.fetch();
  plane.fetch();
}

void StagedOps::commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                          KvPlane plane) {
  StagedPlane pages(*this, plane);
  const auto slots = staged(*inner_, branch.slots, branch.n);
  const auto table = staged(*inner_, page_table, (branch.end() + kPageTokens - 1) / kPageTokens);
  inner_->commit_kv(shape, {branch.first, branch.n, slots.device()}, table.device(), pages.device());
  pages.fetch();
}

void StagedOps::attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                          Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  const StagedPlane pages(*this, plane);
  const StagedRows list(*inner_, rows, visible.end);
  const auto begin = staged(*inner_, visible.begin, rows.n);
  const auto end = staged(*inner_, visible.end, rows.n);
  const auto sinks = staged(*inner_, shape.sinks, shape.n_heads);
  AttentionShape staged_shape = shape;
  staged_shape.sinks = sinks.device();
  inner_->attention(StagedTensor(*inner_, q, activation_type()).device(), staged_shape, list.rows,
                    {begin.device(), end.device()}, pages.device(), to.device());
  to.fetch();
}

void StagedOps::sigmoid_gate(Tensor gate, Tensor x) {
  StagedTensor to(*inner_, x, activation_type());
  inner_->sigmoid_gate(StagedTensor(*inner_, gate, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::gelu_gate(Tensor gate, Tensor x) {
  StagedTensor to(*inner_, x, activation_type());
  inner_->gelu_gate(StagedTensor(*inner_, gate, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) {
  const DeltaShape& shape = net.shape;
  StagedTensor to(*inner_, out, activation_type());
  StagedPlane states(*this, net.states);
  const StagedRows list(*inner_, net.rows, nullptr);
  const auto taps = staged(*inner_, net.weights.taps, int64_t{shape.taps} * shape.channels());
  const auto decay = staged(*inner_, net.weights.decay, shape.n_v_heads);
  const auto bias = staged(*inner_, net.weights.bias, shape.n_v_heads);
  const auto norm = staged(*inner_, net.weights.norm, shape.v_dim);
  const DeltaWeights weights = {taps.device(), decay.device(), bias.device(), norm.device(), net.weights.eps};
  inner_->gated_delta_net(StagedTensor(*inner_, in, activation_type()).device(),
                          {shape, weights, list.rows, states.device()}, to.device());
  to.fetch();
  states.fetch();
}

void StagedOps::short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  const ShortConvShape& shape = conv.shape;
  StagedTensor to(*inner_, out, activation_type());
  StagedPlane states(*this, conv.states);
  const StagedRows list(*inner_, conv.rows, nullptr);
  const auto taps = staged(*inner_, conv.taps, int64_t{shape.taps} * shape.channels);
  const auto bias = staged(*inner_, conv.bias, shape.channels);
  inner_->short_conv(StagedTensor(*inner_, in, activation_type()).device(),
                     {shape, taps.device(), bias.device(), list.rows, states.device()}, to.device());
  to.fetch();
  states.fetch();
}

void StagedOps::grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                             Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  const auto base = staged(*inner_, conv.base, int64_t{conv.taps} * x.cols);
  inner_->grouped_conv(
      StagedTensor(*inner_, x, activation_type()).device(), StagedTensor(*inner_, dynamic, activation_type()).device(),
      {conv.taps, conv.group, base.device()}, staged(*inner_, tables, x.rows).device(), store, to.device());
  to.fetch();
}

void StagedOps::find_candidates(Tensor logits, Candidates out) {
  const int64_t size = int64_t{logits.rows} * out.n;
  auto ids = staged(*inner_, out.ids, size);
  auto values = staged(*inner_, out.logits, size);
  inner_->find_candidates(StagedTensor(*inner_, logits, DType::kF32).device(), {out.n, ids.device(), values.device()});
  ids.fetch();
  values.fetch();
}

void StagedOps::score_edges(const CandidateEdges& edges, Tensor out) {
  StagedTensor to(*inner_, out, DType::kF32);
  const StagedTensor anchors(*inner_, edges.anchors, activation_type()),
      before(*inner_, edges.before, activation_type()), after(*inner_, edges.after, activation_type()),
      hidden(*inner_, edges.hidden, DType::kF32);
  const auto logits = staged(*inner_, edges.candidates.logits, int64_t{out.rows} * edges.candidates.n);
  const auto begins = staged(*inner_, edges.begins, out.rows);
  inner_->score_edges({{edges.candidates.n, nullptr, logits.device()},
                       begins.device(),
                       anchors.device(),
                       before.device(),
                       after.device(),
                       hidden.device(),
                       edges.scale},
                      to.device());
  to.fetch();
}

void StagedOps::gather_rows(Tensor x, const int32_t* indices, Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  inner_->gather_rows(StagedTensor(*inner_, x, activation_type()).device(), staged(*inner_, indices, out.rows).device(),
                      to.device());
  to.fetch();
}

void StagedOps::copy(Tensor x, Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  inner_->copy(StagedTensor(*inner_, x, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) {
  auto to_begin = staged(*inner_, begin, rows.n), to_end = staged(*inner_, end, rows.n);
  inner_->visibility(StagedRows(*inner_, rows, nullptr).rows, window, causal, to_begin.device(), to_end.device());
  to_begin.fetch();
  to_end.fetch();
}

void StagedOps::scale(Tensor x, float factor) {
  StagedTensor to(*inner_, x, activation_type());
  inner_->scale(to.device(), factor);
  to.fetch();
}

void StagedOps::softcap(Tensor x, float limit) {
  StagedTensor to(*inner_, x, DType::kF32);
  inner_->softcap(to.device(), limit);
  to.fetch();
}

void StagedOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  inner_->choose(StagedTensor(*inner_, logits, DType::kF32).device(), requests, choices);
}

void StagedOps::copy_bytes(const std::byte* from, std::byte* to, size_t bytes) { std::memcpy(to, from, bytes); }
void StagedOps::upload(const void* from, std::byte* to, size_t bytes) { std::memcpy(to, from, bytes); }
void StagedOps::download(const std::byte* from, void* to, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace ashlar::conformance
