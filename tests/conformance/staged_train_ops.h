// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training ops of a device with a memory of its own, for tests that hold everything in the host's: each op copies what
// it is given to the device and all of it back.

#include <memory>
#include <vector>

#include "device/train_ops.h"

namespace ashlar::conformance {

class StagedTrainOps final : public TrainOps {
 public:
  explicit StagedTrainOps(std::unique_ptr<TrainOps> inner) : inner_(std::move(inner)) {}

  bool takes(DType dtype) const override { return inner_->takes(dtype); }
  TrainPieces pieces() const override { return inner_->pieces(); }
  std::unique_ptr<Buffer> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  std::unique_ptr<Buffer> allocate_shared(size_t bytes) override { return inner_->allocate_shared(bytes); }
  void wait() override { inner_->wait(); }
  void upload(const void* from, std::byte* to, size_t bytes) override { inner_->upload(from, to, bytes); }
  void download(const std::byte* from, void* to, size_t bytes) override { inner_->download(from, to, bytes); }

  void linear(Tensor x, Tensor weight, Store store, Tensor out) override {
    inner_->linear(staged(x), staged(weight), store, staged(out));
    finish();
  }
  void linear_input_gradient(Tensor d_out, Tensor weight, Store store, Tensor d_x) override {
    inner_->linear_input_gradient(staged(d_out), staged(weight), store, staged(d_x));
    finish();
  }
  void linear_weight_gradient(Tensor d_out, Tensor x, Tensor d_weight) override {
    inner_->linear_weight_gradient(staged(d_out), staged(x), staged(d_weight));
    finish();
  }
  void products(ProductKind kind, int32_t n, Tensor a, Tensor b, Tensor out) override {
    inner_->products(kind, n, staged(a), staged(b), staged(out));
    finish();
  }
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    inner_->rms_norm(staged(x), staged(weight, x.cols), eps, staged(out));
    finish();
  }
  void rms_norm_gradient(Tensor d_out, Tensor x, const float* weight, float eps, Store store, Tensor d_x,
                         float* d_weight) override {
    inner_->rms_norm_gradient(staged(d_out), staged(x), staged(weight, x.cols), eps, store, staged(d_x),
                              staged(d_weight, x.cols));
    finish();
  }
  void rope(Tensor x, int32_t head_dim, const RowRotation& rotation) override {
    inner_->rope(staged(x), head_dim, staged(rotation, x.rows, head_dim));
    finish();
  }
  void rope_gradient(Tensor d_x, int32_t head_dim, const RowRotation& rotation) override {
    inner_->rope_gradient(staged(d_x), head_dim, staged(rotation, d_x.rows, head_dim));
    finish();
  }
  void silu_mul(Tensor gate, Tensor up, Tensor out) override {
    inner_->silu_mul(staged(gate), staged(up), staged(out));
    finish();
  }
  void silu_mul_gradient(Tensor d_out, Tensor gate, Tensor up, Tensor d_gate, Tensor d_up) override {
    inner_->silu_mul_gradient(staged(d_out), staged(gate), staged(up), staged(d_gate), staged(d_up));
    finish();
  }
  void sigmoid_mul(Tensor gate, Tensor x, Tensor out) override {
    inner_->sigmoid_mul(staged(gate), staged(x), staged(out));
    finish();
  }
  void sigmoid_mul_gradient(Tensor d_out, Tensor gate, Tensor x, Tensor d_gate, Tensor d_x) override {
    inner_->sigmoid_mul_gradient(staged(d_out), staged(gate), staged(x), staged(d_gate), staged(d_x));
    finish();
  }
  void attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums) override {
    inner_->attention(staged(q), staged(k), staged(v), layout, staged(out), staged(log_sums));
    finish();
  }
  void attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out,
                          Tensor log_sums, Tensor d_q, Tensor d_k, Tensor d_v) override {
    inner_->attention_gradient(staged(d_out), staged(q), staged(k), staged(v), layout, staged(out), staged(log_sums),
                               staged(d_q), staged(d_k), staged(d_v));
    finish();
  }
  void cross_entropy(Tensor hidden, Tensor head, const int32_t* labels, TokenLoss* losses, Tensor d_hidden,
                     const Candidates& candidates) override {
    inner_->cross_entropy(staged(hidden), staged(head), staged(labels, hidden.rows), losses, staged(d_hidden),
                          staged(candidates, hidden.rows));
    finish();
  }
  void distribution_loss(Tensor hidden, Tensor target, Tensor head, DistributionLoss loss, TokenLoss* losses,
                         Tensor d_hidden, const Candidates& candidates) override {
    inner_->distribution_loss(staged(hidden), staged(target), staged(head), loss, losses, staged(d_hidden),
                              staged(candidates, hidden.rows));
    finish();
  }
  void head_gradient(const LossRows& rows, Tensor x, Tensor d_weight) override {
    const int32_t* const labels = rows.is_of_labels() ? staged(rows.labels, rows.hidden.rows) : nullptr;
    inner_->head_gradient({staged(rows.hidden), staged(rows.head), labels, staged(rows.target), rows.loss}, staged(x),
                          staged(d_weight));
    finish();
  }
  void candidate_loss(const ChoosingRows& rows, TokenLoss* losses) override {
    inner_->candidate_loss(staged(rows), losses);
    finish();
  }
  void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) override {
    inner_->candidate_gradient(staged(rows), staged(weights, rows.n_rows()),
                               {staged(out.hidden), staged(out.projected), staged(out.before), staged(out.after)});
    finish();
  }
  void block_conv(const BlockConvolution& rows, Store store, Tensor out) override {
    inner_->block_conv(staged(rows), store, staged(out));
    finish();
  }
  void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic,
                           float* d_base) override {
    inner_->block_conv_gradient(staged(d_out), staged(rows), staged(d_x), staged(d_dynamic),
                                staged(d_base, int64_t{rows.conv.taps} * d_x.cols));
    finish();
  }
  void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) override {
    if (factors != nullptr) factors = staged(factors, static_cast<int64_t>(ids.size()));
    inner_->add_rows(staged(rows), ids, factors, scale, staged(table));
    finish();
  }
  void gather(Tensor table, const int32_t* ids, float scale, Tensor out) override {
    inner_->gather(staged(table), staged(ids, out.rows), scale, staged(out));
    finish();
  }
  void scatter(Tensor rows, const int32_t* ids, const float* scales, Store store, Tensor out) override {
    inner_->scatter(staged(rows), staged(ids, rows.rows), staged(scales, rows.rows), store, staged(out));
    finish();
  }
  void copy(Tensor x, Tensor out) override {
    inner_->copy(staged(x), staged(out));
    finish();
  }
  void clear(float* values, int64_t n) override {
    inner_->clear(staged(values, n), n);
    finish();
  }
  double squared_norm(const float* values, int64_t n) override {
    const double norm = inner_->squared_norm(staged(values, n), n);
    finish();
    return norm;
  }
  void scale(float* values, int64_t n, float factor) override {
    inner_->scale(staged(values, n), n, factor);
    finish();
  }
  void combine(float alpha, const float* x, float beta, const float* y, int64_t n, float* out) override {
    inner_->combine(alpha, staged(x, n), beta, staged(y, n), n, staged(out, n));
    finish();
  }
  void adamw(const AdamW& step, const float* gradient, int64_t n, float* values, float* m, float* v) override {
    inner_->adamw(step, staged(gradient, n), n, staged(values, n), staged(m, n), staged(v, n));
    finish();
  }

 private:
  struct Twin {
    const void* host;
    size_t bytes;
    std::unique_ptr<Buffer> device;
  };

  /// The same memory twice in a call is one twin, for ops that work in place.
  template <class T>
  T* staged(T* host, int64_t n) {
    const size_t bytes = sizeof(T) * static_cast<size_t>(n);
    for (const Twin& twin : twins_) {
      if (twin.host == host && twin.bytes == bytes) return reinterpret_cast<T*>(twin.device->data());
    }
    twins_.push_back({host, bytes, inner_->allocate(bytes)});
    inner_->upload(host, twins_.back().device->data(), bytes);
    return reinterpret_cast<T*>(twins_.back().device->data());
  }
  Tensor staged(Tensor x) {
    const int64_t values = (int64_t{x.rows} - 1) * x.stride + x.cols;
    if (x.rows > 0) x.data = staged(static_cast<std::byte*>(x.data), values * static_cast<int64_t>(bytes_of(x.dtype)));
    return x;
  }
  Candidates staged(const Candidates& candidates, int32_t rows) {
    if (candidates.n == 0) return {};
    const int64_t values = int64_t{rows} * candidates.n;
    return {candidates.n, staged(candidates.ids, values), staged(candidates.logits, values)};
  }
  ChoosingRows staged(const ChoosingRows& rows) {
    const int32_t n = rows.n_rows();
    return {staged(rows.candidates, n), staged(rows.labels, n),  staged(rows.before, n),
            staged(rows.hidden),        staged(rows.head),       staged(rows.projected),
            staged(rows.predecessors),  staged(rows.successors), rows.scale};
  }
  BlockConvolution staged(const BlockConvolution& rows) {
    const float* const base = staged(rows.conv.base, int64_t{rows.conv.taps} * rows.x.cols);
    return {staged(rows.x), staged(rows.dynamic), {rows.conv.taps, rows.conv.group, base}, rows.block};
  }
  RowRotation staged(const RowRotation& rotation, int32_t rows, int32_t head_dim) {
    constexpr int64_t kPositions = 50;  // of the tests' tables
    return {staged(rotation.cos, kPositions * head_dim / 2), staged(rotation.sin, kPositions * head_dim / 2),
            staged(rotation.positions, rows)};
  }
  void finish() {
    for (const Twin& twin : twins_) inner_->download(twin.device->data(), const_cast<void*>(twin.host), twin.bytes);
    twins_.clear();
  }

  std::unique_ptr<TrainOps> inner_;
  std::vector<Twin> twins_;
};

}  // namespace ashlar::conformance
