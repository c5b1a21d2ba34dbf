// SPDX-License-Identifier: Apache-2.0
#include "device/ref/ref_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "device/host_ops.h"
#include "device/ref/ref_kernels.h"
#include "device/ref/ref_kv_pages.h"

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
  explicit RefWeight(const WeightSource& source)
      : n_(static_cast<int32_t>(source.rows())),
        k_(static_cast<int32_t>(source.cols())),
        values_(static_cast<size_t>(n_) * k_),
        bias_(source.bias) {
    float* to = values_.data();
    for (const WeightPart& part : source.parts) {
      decode_rows(part, 0, part.rows, to);
      to += part.rows * part.cols;
    }
  }
  int32_t n() const override { return n_; }
  int32_t k() const override { return k_; }
  size_t bytes() const override { return (values_.size() + bias_.size()) * sizeof(float); }
  std::string_view format() const override { return "f32"; }

  const float* row(int64_t i) const { return values_.data() + i * k_; }
  const std::vector<float>& bias() const { return bias_; }

 private:
  int32_t n_;
  int32_t k_;
  std::vector<float> values_;  // [n, k]
  std::vector<float> bias_;    // empty or [n]
};

class RefExperts final : public ExpertWeights {
 public:
  explicit RefExperts(std::span<const ExpertSource> experts) : gate_(experts.front().gate) {
    for (const ExpertSource& expert : experts) {
      ASHLAR_CHECK(expert.gate == gate_);
      gate_up_.emplace_back(expert.gate_up);
      down_.emplace_back(expert.down);
      ASHLAR_CHECK(down_.back().n() == hidden() && down_.back().k() == width());
      ASHLAR_CHECK(gate_up_.back().n() == 2 * width() && gate_up_.back().k() == hidden());
    }
  }
  int32_t n() const override { return static_cast<int32_t>(down_.size()); }
  int32_t hidden() const override { return down_.front().n(); }
  int32_t width() const override { return down_.front().k(); }
  size_t bytes() const override {
    return static_cast<size_t>(n()) * (gate_up_.front().bytes() + down_.front().bytes());
  }

  const RefWeight& gate_up(int32_t expert) const { return gate_up_[static_cast<size_t>(expert)]; }
  const RefWeight& down(int32_t expert) const { return down_[static_cast<size_t>(expert)]; }
  const ExpertGate& gate() const { return gate_; }

 private:
  std::vector<RefWeight> gate_up_, down_;
  ExpertGate gate_;
};

float gelu(double g) {
  const double argument = 2 * std::sqrt(2 * std::numbers::inv_pi) * (g + 0.044715 * g * g * g);
  return static_cast<float>(g / (1 + std::exp(-argument)));
}

float gated(const ExpertGate& gate, float g, float u) {
  if (gate.gelu) return gelu(g) * u;
  if (gate.limit == 0) return g / (1.0F + std::exp(-g)) * u;
  const float h = std::min(g, gate.limit);
  return (std::clamp(u, -gate.limit, gate.limit) + 1) * (h / (1.0F + std::exp(-gate.alpha * h)));
}

const RefWeight& as_ref(const Weight& weight) { return own_weight<RefWeight>(weight); }

class RefOps final : public HostOps {
 public:
  explicit RefOps(const KvCodec* codec) : kv_(codec) {}

  std::string name() const override { return "ref"; }
  std::string isa() const override { return "fp32"; }
  int32_t threads() const override { return 1; }

  std::unique_ptr<Buffer> allocate(size_t bytes) override { return std::make_unique<RefBuffer>(bytes); }

  std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse /*use*/) override {
    return std::make_unique<RefWeight>(source);
  }

  std::unique_ptr<Weight> repack(const Weight& /*weight*/, Products /*products*/) override { return nullptr; }

  std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) override {
    return std::make_unique<RefExperts>(experts);
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
    const Tensor x = in.x;
    const int32_t k = w.k();
    std::vector<float> normed(in.norm == nullptr ? 0 : static_cast<size_t>(k));
    std::vector<double> inputs(static_cast<size_t>(x.rows) * k);
    for (int32_t r = 0; r < x.rows; ++r) {
      if (in.norm != nullptr) ref::rms_norm(x.row(r), in.norm, k, in.eps, normed.data());
      ref::widen(in.norm != nullptr ? normed.data() : x.row(r), k, inputs.data() + int64_t{r} * k);
    }
    // A few outputs of every row at a time, so that a weight crosses the caches and is widened once.
    std::vector<double> rows(static_cast<size_t>(ref::kTogether) * k);
    float sums[ref::kTogether];
    for (int32_t first = 0; first < w.n(); first += ref::kTogether) {
      const int32_t count = std::min(ref::kTogether, w.n() - first);
      ref::widen(w.row(first), int64_t{count} * k, rows.data());
      for (int32_t r = 0; r < x.rows; ++r) {
        ref::few_dots(inputs.data() + int64_t{r} * k, rows.data(), k, sums);
        for (int32_t i = 0; i < count; ++i) {
          if (!w.bias().empty()) sums[i] += w.bias()[first + i];
          float& to = out.row(r)[first + i];
          to = store == Store::kAdd ? to + sums[i] : sums[i];
        }
      }
    }
  }

  void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) override {
    for_each_product(weight, x, [&](int32_t r, const float* row) {
      ids[r] = -1;
      float highest = -std::numeric_limits<float>::infinity();
      for (int32_t i = 0; i < weight.n(); ++i) {
        if (!(row[i] > highest)) continue;
        highest = row[i];
        ids[r] = i;
      }
    });
  }

  void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) override {
    for_each_product(weight, x, [&](int32_t r, float* row) {
      if (without >= 0) row[without] = -std::numeric_limits<float>::infinity();
      out[r] = row_statistics(row, weight.n());
    });
  }

  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override {
    gated_mlp(gate_up, down, {}, in, out);
  }

  void gated_mlp(const Weight& gate_up, const Weight& down, const ExpertGate& gate, Input in, Tensor out) {
    const Tensor x = in.x;
    const int32_t width = down.k();
    ASHLAR_CHECK_EQ(2 * width, gate_up.n());
    std::vector<float> values(static_cast<size_t>(x.rows) * gate_up.n());
    const Tensor rows = {values.data(), x.rows, gate_up.n(), gate_up.n()};
    linear(gate_up, in, Store::kOverwrite, rows);
    for (int32_t r = 0; r < x.rows; ++r) {
      float* row = rows.row(r);
      for (int32_t i = 0; i < width; ++i) row[i] = gated(gate, row[i], row[width + i]);
    }
    linear(down, rows.columns(0, width), Store::kAdd, out);
  }

  void reduce_add(Tensor partial, Tensor residual) override {
    for (int32_t r = 0; r < residual.rows; ++r) {
      for (int32_t i = 0; i < residual.cols; ++i) residual.row(r)[i] += partial.row(r)[i];
    }
  }

  void route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) override {
    ASHLAR_CHECK(routing.top_k == routes.top_k && routing.top_k <= logits.cols);
    for (int32_t r = 0; r < logits.rows; ++r) {
      ref::route(logits.row(r), factors, logits.cols, routing, routes.experts_of(r), routes.weights_of(r));
    }
  }

  void mix_experts(const ExpertWeights& weights, Tensor x, Routes routes, Tensor out) override {
    const auto& experts = own_weight<RefExperts>(weights);
    std::vector<float> floats(static_cast<size_t>(experts.hidden()));
    const Tensor answer = {floats.data(), 1, experts.hidden(), experts.hidden()};
    for (int32_t r = 0; r < x.rows; ++r) {
      for (int32_t j = 0; j < routes.top_k; ++j) {
        const int32_t expert = routes.experts_of(r)[j];
        ASHLAR_CHECK(expert >= 0 && expert < experts.n());
        std::fill(floats.begin(), floats.end(), 0.0F);
        gated_mlp(experts.gate_up(expert), experts.down(expert), experts.gate(), Tensor{x.row(r), 1, x.cols, x.stride},
                  answer);
        for (int32_t i = 0; i < out.cols; ++i) out.row(r)[i] += routes.weights_of(r)[j] * answer.row(0)[i];
      }
    }
  }

  int64_t kv_page_bytes(const AttentionShape& shape) const override { return kv_.page_bytes(shape); }

  void store_kv(Tensor qkv, const KvStore& to) override { kv_.store(qkv, to); }

  void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                 KvPlane plane) override {
    kv_.commit(shape, branch, page_table, plane);
  }

  void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                 Tensor out) override {
    kv_.attend(q, shape, rows, visible, plane, out);
  }

  void sigmoid_gate(Tensor gate, Tensor x) override {
    for (int32_t r = 0; r < x.rows; ++r) {
      for (int32_t i = 0; i < x.cols; ++i) {
        x.row(r)[i] *= 1.0F / (1.0F + std::exp(-gate.row(r)[gate.cols == 1 ? 0 : i]));
      }
    }
  }

  void gelu_gate(Tensor gate, Tensor x) override {
    for (int32_t r = 0; r < x.rows; ++r) {
      for (int32_t i = 0; i < x.cols; ++i) x.row(r)[i] *= gelu(gate.row(r)[i]);
    }
  }

  void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) override { ref::gated_delta_net(in, net, out); }

  void short_conv(Tensor in, const ShortConv& conv, Tensor out) override { ref::short_conv(in, conv, out); }

  void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                    Tensor out) override {
    ref::grouped_conv(x, dynamic, conv, tables, store == Store::kAdd, out);
  }

  void find_candidates(Tensor logits, Candidates out) override { ref::find_candidates(logits, out); }

  void score_edges(const CandidateEdges& edges, Tensor out) override { ref::score_edges(edges, out); }
  void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) override {
    ref::candidate_attention(qkv, call, out);
  }

  void gather_rows(Tensor x, const int32_t* indices, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) std::memcpy(out.row(r), x.row(indices[r]), sizeof(float) * out.cols);
  }

  void copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) override {
    for (int32_t i = 0; i < n; ++i) std::memcpy(out.row(to[i]), x.row(from[i]), sizeof(float) * out.cols);
  }

  void copy(Tensor x, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) std::memcpy(out.row(r), x.row(r), sizeof(float) * out.cols);
  }

  void for_each(int32_t n, void (*fn)(void*, int32_t), void* context) override {
    for (int32_t i = 0; i < n; ++i) fn(context, i);
  }

 private:
  /// visit(r, product of row r with the weight [n]).
  template <class Visit>
  void for_each_product(const Weight& weight, Tensor x, Visit visit) {
    constexpr int32_t kRows = 16;  // logits of a vocabulary that are held at once
    std::vector<float> values(static_cast<size_t>(std::min(x.rows, kRows)) * weight.n());
    for (int32_t first = 0; first < x.rows; first += kRows) {
      const Tensor some = x.part(first, std::min(kRows, x.rows - first));
      const Tensor products = {values.data(), some.rows, weight.n(), weight.n()};
      linear(weight, some, Store::kOverwrite, products);
      for (int32_t r = 0; r < some.rows; ++r) visit(first + r, products.row(r));
    }
  }

  const ref::KvPages kv_;
};

}  // namespace

std::unique_ptr<Ops> make_ref_ops(KvDType kv_dtype) { return std::make_unique<RefOps>(kv_codec(kv_dtype)); }

}  // namespace ashlar
