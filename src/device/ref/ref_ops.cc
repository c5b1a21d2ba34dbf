#include "device/ref/ref_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "device/ref/ref_kernels.h"

namespace ashlar {
namespace {

class RefBuffer final : public Buffer {
 public:
  explicit RefBuffer(size_t bytes) : size_(bytes), storage_(bytes + kAlignment) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }
  std::byte* data() override { return data_; }
  size_t size() const override { return size_; }

 private:
  static constexpr size_t kAlignment = 64;
  size_t size_;
  std::vector<std::byte> storage_;
  std::byte* data_;
};

class RefWeight final : public Weight {
 public:
  RefWeight(int32_t n, int32_t k) : n_(n), k_(k), values_(static_cast<size_t>(n) * k) {}
  int32_t n() const override { return n_; }
  int32_t k() const override { return k_; }
  size_t bytes() const override { return (values_.size() + bias_.size()) * sizeof(float); }

  float* row(int64_t i) { return values_.data() + i * k_; }
  const float* row(int64_t i) const { return values_.data() + i * k_; }
  std::vector<float>& bias() { return bias_; }
  const std::vector<float>& bias() const { return bias_; }

 private:
  int32_t n_;
  int32_t k_;
  std::vector<float> values_;  // [n, k]
  std::vector<float> bias_;    // empty or [n]
};

template <class T>
void widen(const void* from, int64_t count, float* to) {
  const T* source = static_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = to_float(source[i]);
}

const RefWeight& as_ref(const Weight& weight) { return own_weight<RefWeight>(weight); }

class RefOps final : public Ops {
 public:
  std::string name() const override { return "ref"; }
  std::string isa() const override { return "fp32"; }
  int32_t threads() const override { return 1; }

  std::unique_ptr<Buffer> allocate(size_t bytes) override { return std::make_unique<RefBuffer>(bytes); }

  std::unique_ptr<Weight> pack(std::span<const HostTensor> parts, std::span<const float> bias) override {
    ASHLAR_CHECK(!parts.empty());
    int64_t n = 0;
    for (const HostTensor& part : parts) {
      ASHLAR_CHECK_EQ(part.cols, parts[0].cols);
      n += part.rows;
    }
    auto weight = std::make_unique<RefWeight>(static_cast<int32_t>(n), static_cast<int32_t>(parts[0].cols));
    int64_t at = 0;
    for (const HostTensor& part : parts) {
      const int64_t count = part.rows * part.cols;
      switch (part.dtype) {
        case DType::kF32:
          widen<float>(part.data, count, weight->row(at));
          break;
        case DType::kBF16:
          widen<BFloat16>(part.data, count, weight->row(at));
          break;
        case DType::kF16:
          widen<Float16>(part.data, count, weight->row(at));
          break;
      }
      at += part.rows;
    }
    ASHLAR_CHECK(bias.empty() || static_cast<int64_t>(bias.size()) == n);
    weight->bias().assign(bias.begin(), bias.end());
    return weight;
  }

  std::unique_ptr<Weight> pack_gated(const HostTensor& gate, const HostTensor& up,
                                     std::span<const float> bias) override {
    ASHLAR_CHECK_EQ(gate.rows, up.rows);
    const HostTensor parts[] = {gate, up};
    return pack(parts, bias);
  }

  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) {
      ASHLAR_CHECK(ids[r] >= 0 && ids[r] < table.n());
      const float* from = as_ref(table).row(ids[r]);
      for (int32_t i = 0; i < out.cols; ++i) out.row(r)[i] = from[i] * scale;
    }
  }

  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    for (int32_t r = 0; r < x.rows; ++r) ref::rms_norm(x.row(r), weight, x.cols, eps, out.row(r));
  }

  void linear(const Weight& weight, Input in, Store store, Tensor out) override {
    const RefWeight& w = as_ref(weight);
    ASHLAR_CHECK_EQ(in.x.cols, w.k());
    ASHLAR_CHECK_EQ(out.cols, w.n());
    std::vector<float> normed(in.norm == nullptr ? 0 : static_cast<size_t>(w.k()));
    for (int32_t r = 0; r < in.x.rows; ++r) {
      const float* x = in.x.row(r);
      if (in.norm != nullptr) {
        ref::rms_norm(x, in.norm, w.k(), in.eps, normed.data());
        x = normed.data();
      }
      for (int32_t n = 0; n < w.n(); ++n) {
        float sum = ref::dot(x, w.row(n), w.k());
        if (!w.bias().empty()) sum += w.bias()[n];
        float& to = out.row(r)[n];
        to = store == Store::kAdd ? to + sum : sum;
      }
    }
  }

  void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) override {
    std::vector<float> row(static_cast<size_t>(weight.n()));
    for (int32_t r = 0; r < x.rows; ++r) {
      linear(weight, Tensor{x.row(r), 1, x.cols, x.stride}, Store::kOverwrite, {row.data(), 1, weight.n(), weight.n()});
      ids[r] = -1;
      float highest = -std::numeric_limits<float>::infinity();
      for (int32_t i = 0; i < weight.n(); ++i) {
        if (!(row[i] > highest)) continue;
        highest = row[i];
        ids[r] = i;
      }
    }
  }

  void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) override {
    std::vector<float> row(static_cast<size_t>(weight.n()));
    for (int32_t r = 0; r < x.rows; ++r) {
      linear(weight, Tensor{x.row(r), 1, x.cols, x.stride}, Store::kOverwrite, {row.data(), 1, weight.n(), weight.n()});
      if (without >= 0) row[static_cast<size_t>(without)] = -std::numeric_limits<float>::infinity();
      out[r] = row_statistics(row.data(), weight.n());
    }
  }

  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override {
    const Tensor x = in.x;
    const int32_t width = down.k();
    ASHLAR_CHECK_EQ(2 * width, gate_up.n());
    std::vector<float> row(static_cast<size_t>(gate_up.n()));
    for (int32_t r = 0; r < x.rows; ++r) {
      linear(gate_up, {{x.row(r), 1, x.cols, x.stride}, in.norm, in.eps}, Store::kOverwrite,
             {row.data(), 1, gate_up.n(), gate_up.n()});
      const float* up = row.data() + width;
      for (int32_t i = 0; i < width; ++i) row[i] = row[i] / (1.0F + std::exp(-row[i])) * up[i];
      linear(down, Tensor{row.data(), 1, width, width}, Store::kAdd, {out.row(r), 1, out.cols, out.stride});
    }
  }

  void route(Tensor logits, const float* bias, const Routing& routing, Routes routes) override {
    ASHLAR_CHECK(routing.top_k == routes.top_k && routing.top_k <= logits.cols);
    for (int32_t r = 0; r < logits.rows; ++r) {
      ref::route(logits.row(r), bias, logits.cols, routing, routes.experts_of(r), routes.weights_of(r));
    }
  }

  void mix_experts(const Experts& experts, Tensor x, Routes routes, Tensor out) override {
    std::vector<float> floats(static_cast<size_t>(experts.hidden()));
    const Tensor answer = {floats.data(), 1, experts.hidden(), experts.hidden()};
    for (int32_t r = 0; r < x.rows; ++r) {
      for (int32_t j = 0; j < routes.top_k; ++j) {
        const int32_t expert = routes.experts_of(r)[j];
        ASHLAR_CHECK(expert >= 0 && expert < experts.n());
        std::fill(floats.begin(), floats.end(), 0.0F);
        gated_mlp(*experts.gate_up[expert], *experts.down[expert], Tensor{x.row(r), 1, x.cols, x.stride}, answer);
        for (int32_t i = 0; i < out.cols; ++i) out.row(r)[i] += routes.weights_of(r)[j] * answer.data[i];
      }
    }
  }

  int64_t kv_page_bytes(const AttentionShape& shape) const override {
    return int64_t{2} * kPageTokens * shape.kv_width() * static_cast<int64_t>(sizeof(float));
  }

  void store_kv(Tensor qkv, const KvStore& to) override {
    ref::store_kv(qkv, to.shape, to.q_norm, to.k_norm, to.eps, to.rope, to.rows, to.plane);
  }

  void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                 KvPlane plane) override {
    ref::commit_kv(shape, branch, page_table, plane);
  }

  void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                 Tensor out) override {
    ref::attention(q, shape, rows, visible, plane, out);
  }

  void gather_rows(Tensor x, const int32_t* indices, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) std::memcpy(out.row(r), x.row(indices[r]), sizeof(float) * out.cols);
  }

  void copy(Tensor x, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) std::memcpy(out.row(r), x.row(r), sizeof(float) * out.cols);
  }

  void for_each(int32_t n, void (*fn)(void*, int32_t), void* context) override {
    for (int32_t i = 0; i < n; ++i) fn(context, i);
  }
};

}  // namespace

std::unique_ptr<Ops> make_ref_ops() { return std::make_unique<RefOps>(); }

}  // namespace ashlar
