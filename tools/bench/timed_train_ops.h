// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training ops that count the time and the multiplications of each kind of op.

#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "device/train_ops.h"

namespace ashlar {

inline double seconds_now() { return static_cast<double>(now_ns()) * 1e-9; }

class TimedTrainOps final : public TrainOps {
 public:
  explicit TimedTrainOps(std::unique_ptr<TrainOps> ops) : ops_(std::move(ops)) {}

  struct Use {
    double seconds = 0;
    double operations = 0;  ///< two for each multiplication and addition of the products
  };
  std::map<std::string, Use> uses;
  bool waits = false;  ///< for the device after each op: else an op of a GPU takes the time to queue it

  bool takes(DType dtype) const override { return ops_->takes(dtype); }
  TrainPieces pieces() const override { return ops_->pieces(); }
  std::unique_ptr<Buffer> allocate(size_t bytes) override { return ops_->allocate(bytes); }
  std::unique_ptr<Buffer> allocate_shared(size_t bytes) override { return ops_->allocate_shared(bytes); }
  void wait() override { ops_->wait(); }
  void upload(const void* from, std::byte* to, size_t bytes) override {
    timed("upload", 0, [&] { ops_->upload(from, to, bytes); });
  }
  void download(const std::byte* from, void* to, size_t bytes) override { ops_->download(from, to, bytes); }
  void linear(Tensor x, Tensor weight, Store store, Tensor out) override {
    timed("product", product(out.rows, out.cols, x.cols), [&] { ops_->linear(x, weight, store, out); });
  }
  void linear_input_gradient(Tensor d_out, Tensor weight, Store store, Tensor d_x) override {
    timed("product, gradient of x", product(d_x.rows, d_x.cols, weight.rows),
          [&] { ops_->linear_input_gradient(d_out, weight, store, d_x); });
  }
  void linear_weight_gradient(Tensor d_out, Tensor x, Tensor d_weight) override {
    timed("product, gradient of the weight", product(d_weight.rows, d_weight.cols, x.rows),
          [&] { ops_->linear_weight_gradient(d_out, x, d_weight); });
  }
  void products(ProductKind kind, int32_t n, Tensor a, Tensor b, Tensor out) override {
    timed("optimiser", 0, [&] { ops_->products(kind, n, a, b, out); });
  }
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    timed("rms_norm", 0, [&] { ops_->rms_norm(x, weight, eps, out); });
  }
  void rms_norm_gradient(Tensor d_out, Tensor x, const float* weight, float eps, Store store, Tensor d_x,
                         float* d_weight) override {
    timed("rms_norm, gradient", 0, [&] { ops_->rms_norm_gradient(d_out, x, weight, eps, store, d_x, d_weight); });
  }
  void rope(Tensor x, int32_t head_dim, const RowRotation& rotation) override {
    timed("rope", 0, [&] { ops_->rope(x, head_dim, rotation); });
  }
  void rope_gradient(Tensor d_x, int32_t head_dim, const RowRotation& rotation) override {
    timed("rope", 0, [&] { ops_->rope_gradient(d_x, head_dim, rotation); });
  }
  void silu_mul(Tensor gate, Tensor up, Tensor out) override {
    timed("silu_mul", 0, [&] { ops_->silu_mul(gate, up, out); });
  }
  void sigmoid_mul(Tensor gate, Tensor x, Tensor out) override {
    timed("sigmoid_mul", 0, [&] { ops_->sigmoid_mul(gate, x, out); });
  }
  void sigmoid_mul_gradient(Tensor d_out, Tensor gate, Tensor x, Tensor d_gate, Tensor d_x) override {
    timed("sigmoid_mul, gradient", 0, [&] { ops_->sigmoid_mul_gradient(d_out, gate, x, d_gate, d_x); });
  }
  void silu_mul_gradient(Tensor d_out, Tensor gate, Tensor up, Tensor d_gate, Tensor d_up) override {
    timed("silu_mul, gradient", 0, [&] { ops_->silu_mul_gradient(d_out, gate, up, d_gate, d_up); });
  }
  void attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums) override {
    timed("attention", 2 * scores(layout), [&] { ops_->attention(q, k, v, layout, out, log_sums); });
  }
  void attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out,
                          Tensor log_sums, Tensor d_q, Tensor d_k, Tensor d_v) override {
    timed("attention, gradient", 5 * scores(layout),
          [&] { ops_->attention_gradient(d_out, q, k, v, layout, out, log_sums, d_q, d_k, d_v); });
  }
  void cross_entropy(Tensor hidden, Tensor head, const int32_t* labels, TokenLoss* losses, Tensor d_hidden,
                     const Candidates& candidates) override {
    timed("cross_entropy", product(hidden.rows, head.rows, head.cols) * (d_hidden.rows > 0 ? 2 : 1),
          [&] { ops_->cross_entropy(hidden, head, labels, losses, d_hidden, candidates); });
  }
  void distribution_loss(Tensor hidden, Tensor target, Tensor head, DistributionLoss loss, TokenLoss* losses,
                         Tensor d_hidden, const Candidates& candidates) override {
    timed("distribution_loss", product(hidden.rows, head.rows, head.cols) * (d_hidden.rows > 0 ? 3 : 2),
          [&] { ops_->distribution_loss(hidden, target, head, loss, losses, d_hidden, candidates); });
  }
  void head_gradient(const LossRows& rows, Tensor x, Tensor d_weight) override {
    const double logits = product(rows.hidden.rows, rows.head.rows, rows.head.cols) * (rows.is_of_labels() ? 1 : 2);
    timed("head, gradient", logits + product(x.rows, d_weight.rows, d_weight.cols),
          [&] { ops_->head_gradient(rows, x, d_weight); });
  }
  void candidate_loss(const ChoosingRows& rows, TokenLoss* losses) override {
    timed("selector", 0, [&] { ops_->candidate_loss(rows, losses); });
  }
  void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) override {
    timed("selector, gradient", 0, [&] { ops_->candidate_gradient(rows, weights, out); });
  }
  void block_conv(const BlockConvolution& rows, Store store, Tensor out) override {
    timed("convolution", 0, [&] { ops_->block_conv(rows, store, out); });
  }
  void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic,
                           float* d_base) override {
    timed("convolution, gradient", 0, [&] { ops_->block_conv_gradient(d_out, rows, d_x, d_dynamic, d_base); });
  }
  void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) override {
    timed("selector, gradient", 0, [&] { ops_->add_rows(rows, ids, factors, scale, table); });
  }
  void gather(Tensor table, const int32_t* ids, float scale, Tensor out) override {
    timed("rows", 0, [&] { ops_->gather(table, ids, scale, out); });
  }
  void scatter(Tensor rows, const int32_t* ids, const float* scales, Store store, Tensor out) override {
    timed("rows", 0, [&] { ops_->scatter(rows, ids, scales, store, out); });
  }
  void copy(Tensor x, Tensor out) override {
    timed("rows", 0, [&] { ops_->copy(x, out); });
  }
  void clear(float* values, int64_t n) override {
    timed("optimiser", 0, [&] { ops_->clear(values, n); });
  }
  double squared_norm(const float* values, int64_t n) override {
    double norm = 0;
    timed("optimiser", 0, [&] { norm = ops_->squared_norm(values, n); });
    return norm;
  }
  void normalise(float* values, int64_t count, int32_t n, double least) override {
    timed("optimiser", 0, [&] { ops_->normalise(values, count, n, least); });
  }
  void scale(float* values, int64_t n, float factor) override {
    timed("optimiser", 0, [&] { ops_->scale(values, n, factor); });
  }
  void combine(float alpha, const float* x, float beta, const float* y, int64_t n, float* out) override {
    timed("optimiser", 0, [&] { ops_->combine(alpha, x, beta, y, n, out); });
  }
  void adamw(const AdamW& step, const float* gradient, int64_t n, float* values, float* m, float* v) override {
    timed("optimiser", 0, [&] { ops_->adamw(step, gradient, n, values, m, v); });
  }

 private:
  static double product(int32_t m, int32_t n, int32_t k) { return 2.0 * m * n * k; }
  /// Of one product of queries and the keys that they see. A backward needs five such products, if probabilities are
  /// computed again; what it computes twice does not count.
  static double scores(const BlockAttention& layout) {
    double sum = 0;
    for (const BlockContext& block : layout.blocks) {
      sum += product(layout.block, block.n + layout.block, layout.width());
    }
    return sum;
  }
  template <class Fn>
  void timed(const char* name, double operations, const Fn& fn) {
    const double begin = seconds_now();
    fn();
    if (waits) ops_->wait();
    Use& use = uses[name];
    use.seconds += seconds_now() - begin;
    use.operations += operations;
  }

  std::unique_ptr<TrainOps> ops_;
};

}  // namespace ashlar
