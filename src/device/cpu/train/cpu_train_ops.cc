// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/train/cpu_train_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/row_math.h"
#include "device/copy_row.h"
#include "device/cpu/isa/cpu_features.h"
#include "device/cpu/train/block_attention.h"
#include "device/cpu/train/blocked_product.h"
#include "device/cpu/train/distribution_row.h"
#include "device/cpu/train/train_heads.h"

namespace ashlar {
namespace cpu {

const TrainKernels& train_kernels_for(const std::string& isa) {
  kernels_for(isa);  // throws if the machine lacks it
#ifdef ASHLAR_INSTRUCTION_SETS
  if (isa == "avx2") return avx2_train_kernels();
#endif
#ifdef ASHLAR_WIDE_KERNELS
  if (isa != "portable") return avx512_train_kernels();
#endif
  return portable_train_kernels();
}

namespace {

/// Values of one item of a loop over arrays.
constexpr int64_t kPiece = 16384;
/// Rows of one item of a loop over rows.
constexpr int32_t kRows = 32;
/// Partial sums of a gradient over rows; how many there are depends on the rows alone.
constexpr int32_t kMaxPartials = 64;
/// Floats of logits that exist at once: 128 MiB.
constexpr int64_t kLogits = int64_t{1} << 25;
constexpr int64_t kMaxLogitRows = 1024;

template <class T>
T divided(T n, T by) {
  return (n + by - 1) / by;
}

class CpuTrainOps final : public TrainOps {
 public:
  explicit CpuTrainOps(const DeviceOptions& options)
      : kernels_(train_kernels_for(options.isa.empty() ? runnable_isas().front() : options.isa)),
        pool_(options.threads) {}

  std::unique_ptr<Buffer> allocate(size_t bytes) override { return std::make_unique<CpuBuffer>(bytes); }
  std::unique_ptr<Buffer> allocate_shared(size_t bytes) override { return allocate(bytes); }
  void wait() override {}
  void upload(const void* from, std::byte* to, size_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(from), bytes, to);  // from is null where there is nothing
  }
  void download(const std::byte* from, void* to, size_t bytes) override {
    std::copy_n(from, bytes, static_cast<std::byte*>(to));
  }

  void linear(Tensor x, Tensor weight, Store store, Tensor out) override {
    product_.run(as_it_is(x), transposed(weight), x.cols, store, out);
  }
  void linear_input_gradient(Tensor d_out, Tensor weight, Store store, Tensor d_x) override {
    product_.run(as_it_is(d_out), as_it_is(weight), weight.rows, store, d_x);
  }
  void linear_weight_gradient(Tensor d_out, Tensor x, Tensor d_weight) override {
    product_.run(transposed(d_out), as_it_is(x), x.rows, Store::kAdd, d_weight);
  }

  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    for_rows(x.rows, [&](int32_t r) { kernels_.rms_norm(x.row(r), weight, eps, x.cols, out.row(r)); });
  }
  void rms_norm_gradient(Tensor d_out, Tensor x, const float* weight, float eps, Store store, Tensor d_x,
                         float* d_weight) override {
    const int32_t rows = std::max(kRows, divided(x.rows, kMaxPartials));
    const int32_t partials = divided(x.rows, rows);
    partials_.assign(static_cast<size_t>(partials) * x.cols, 0.0F);
    pool_.run(partials, [&](int32_t item, int32_t /*worker*/) {
      NormGradientCall call;
      call.weight = weight;
      call.eps = eps;
      call.n = x.cols;
      call.add = store == Store::kAdd;
      call.d_weight = partials_.data() + int64_t{item} * x.cols;
      for (int32_t r = item * rows; r < std::min((item + 1) * rows, x.rows); ++r) {
        call.d_out = d_out.row(r);
        call.x = x.row(r);
        call.d_x = d_x.row(r);
        kernels_.rms_norm_gradient(call);
      }
    });
    for (int32_t item = 0; item < partials; ++item) {
      for (int32_t c = 0; c < x.cols; ++c) d_weight[c] += partials_[static_cast<size_t>(item) * x.cols + c];
    }
  }

  void rope(Tensor x, int32_t head_dim, const RowRotation& rotation) override { rotate(x, head_dim, rotation, 1); }
  void rope_gradient(Tensor d_x, int32_t head_dim, const RowRotation& rotation) override {
    rotate(d_x, head_dim, rotation, -1);
  }

  void silu_mul(Tensor gate, Tensor up, Tensor out) override {
    for_rows(out.rows, [&](int32_t r) { kernels_.silu_mul(gate.row(r), up.row(r), out.cols, out.row(r)); });
  }
  void silu_mul_gradient(Tensor d_out, Tensor gate, Tensor up, Tensor d_gate, Tensor d_up) override {
    for_rows(d_out.rows, [&](int32_t r) {
      kernels_.silu_mul_gradient(d_out.row(r), gate.row(r), up.row(r), d_out.cols, d_gate.row(r), d_up.row(r));
    });
  }

  void sigmoid_mul(Tensor gate, Tensor x, Tensor out) override {
    for_rows(out.rows, [&](int32_t r) { kernels_.sigmoid_mul(gate.row(r), x.row(r), out.cols, out.row(r)); });
  }
  void sigmoid_mul_gradient(Tensor d_out, Tensor gate, Tensor x, Tensor d_gate, Tensor d_x) override {
    for_rows(d_out.rows, [&](int32_t r) {
      kernels_.sigmoid_mul_gradient(d_out.row(r), gate.row(r), x.row(r), d_out.cols, d_gate.row(r), d_x.row(r));
    });
  }

  void attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums) override {
    attention_.forward(q, k, v, layout, out, log_sums);
  }
  void attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out,
                          Tensor log_sums, Tensor d_q, Tensor d_k, Tensor d_v) override {
    attention_.backward(d_out, q, k, v, layout, out, log_sums, d_q, d_k, d_v);
  }

  void cross_entropy(Tensor hidden, Tensor head, const int32_t* labels, TokenLoss* losses, Tensor d_hidden,
                     const Candidates& candidates) override {
    by_logits({hidden, head, labels}, [&](int32_t first, const LogitRows& rows) {
      const int32_t n = rows.logits.rows;
      sums_.resize(static_cast<size_t>(n));
      for_rows(n, [&](int32_t r) {
        if (candidates.n > 0) list_candidates(rows.logits.row(r), head.rows, candidates, first + r);
        losses[first + r] = softmax(rows.logits.row(r), head.rows, labels[first + r], sums_[static_cast<size_t>(r)]);
      });
      if (d_hidden.rows == 0) return;
      const Tensor d_rows = d_hidden.part(first, n);
      linear_input_gradient(rows.logits, head, Store::kOverwrite, d_rows);
      for_rows(n, [&](int32_t r) { kernels_.scale(d_rows.row(r), d_rows.cols, 1.0F / sums_[static_cast<size_t>(r)]); });
    });
  }

  void distribution_loss(Tensor hidden, Tensor target, Tensor head, DistributionLoss loss, TokenLoss* losses,
                         Tensor d_hidden, const Candidates& candidates) override {
    by_logits({hidden, head, nullptr, target, loss}, [&](int32_t first, const LogitRows& rows) {
      for_rows(rows.logits.rows, [&](int32_t r) {
        if (candidates.n > 0) list_candidates(rows.logits.row(r), head.rows, candidates, first + r);
        losses[first + r] = distribution_row(kernels_, loss, head.rows, rows.row(r));
      });
      if (d_hidden.rows == 0) return;
      linear_input_gradient(rows.logits, head, Store::kOverwrite, d_hidden.part(first, rows.logits.rows));
    });
  }

  void head_gradient(const LossRows& of, Tensor x, Tensor d_weight) override {
    const int32_t vocab = of.head.rows;
    by_logits(of, [&](int32_t first, const LogitRows& rows) {
      for_rows(rows.logits.rows, [&](int32_t r) {
        if (!of.is_of_labels()) {
          distribution_row(kernels_, of.loss, vocab, rows.row(r));
          return;
        }
        float sum = 0;
        softmax(rows.logits.row(r), vocab, of.labels[first + r], sum);
        kernels_.scale(rows.logits.row(r), vocab, 1.0F / sum);
      });
      linear_weight_gradient(rows.logits, x.part(first, rows.logits.rows), d_weight);
    });
  }

  void candidate_loss(const ChoosingRows& rows, TokenLoss* losses) override { heads_.candidate_loss(rows, losses); }
  void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) override {
    heads_.candidate_gradient(rows, weights, out);
  }
  void block_conv(const BlockConvolution& rows, Store store, Tensor out) override {
    heads_.block_conv(rows, store, out);
  }
  void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic,
                           float* d_base) override {
    heads_.block_conv_gradient(d_out, rows, d_x, d_dynamic, d_base);
  }
  void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) override {
    heads_.add_rows(rows, ids, factors, scale, table);
  }

  void gather(Tensor table, const int32_t* ids, float scale, Tensor out) override {
    for_rows(out.rows, [&](int32_t r) {
      std::memcpy(out.row(r), table.row(ids[r]), sizeof(float) * static_cast<size_t>(out.cols));
      if (scale != 1) kernels_.scale(out.row(r), out.cols, scale);
    });
  }
  void scatter(Tensor rows, const int32_t* ids, const float* scales, Store store, Tensor out) override {
    if (store == Store::kOverwrite) for_rows(out.rows, [&](int32_t r) { std::fill_n(out.row(r), out.cols, 0.0F); });
    for_rows(rows.rows, [&](int32_t r) {
      kernels_.combine(scales[r], rows.row(r), 1, out.row(ids[r]), out.cols, out.row(ids[r]));
    });
  }

  void copy(Tensor x, Tensor out) override {
    for_rows(x.rows, [&](int32_t r) { copy_row(x, r, out.row(r)); });
  }
  void clear(float* values, int64_t n) override {
    for_pieces(n, [&](int64_t first, int64_t count) { std::fill_n(values + first, count, 0.0F); });
  }
  double squared_norm(const float* values, int64_t n) override {
    std::vector<double> sums(static_cast<size_t>(divided(n, kPiece)));
    for_pieces(n, [&](int64_t first, int64_t count) {
      sums[static_cast<size_t>(first / kPiece)] =
          kernels_.dot(values + first, values + first, static_cast<int32_t>(count));
    });
    double sum = 0;
    for (const double part : sums) sum += part;
    return sum;
  }
  void scale(float* values, int64_t n, float factor) override {
    for_pieces(n, [&](int64_t first, int64_t count) { kernels_.scale(values + first, count, factor); });
  }
  void combine(float alpha, const float* x, float beta, const float* y, int64_t n, float* out) override {
    for_pieces(n, [&](int64_t first, int64_t count) {
      kernels_.combine(alpha, x + first, beta, y + first, count, out + first);
    });
  }
  void adamw(const AdamW& step, const float* gradient, int64_t n, float* values, float* m, float* v) override {
    const auto steps = static_cast<double>(step.step);
    AdamWCall call;
    call.beta1 = static_cast<float>(step.beta1);
    call.beta2 = static_cast<float>(step.beta2);
    call.step_size = static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, steps)));
    call.inverse_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, steps)));
    call.eps = static_cast<float>(step.eps);
    call.shrink = static_cast<float>(1 - step.learning_rate * step.weight_decay);
    for_pieces(n, [&](int64_t first, int64_t count) {
      kernels_.adamw(call, gradient + first, count, values + first, m + first, v + first);
    });
  }

 private:
  template <class Fn>
  void for_rows(int32_t rows, const Fn& fn) {
    pool_.run(divided(rows, kRows), [&](int32_t item, int32_t /*worker*/) {
      const int32_t last = std::min((item + 1) * kRows, rows);
      for (int32_t r = item * kRows; r < last; ++r) fn(r);
    });
  }
  template <class Fn>
  void for_pieces(int64_t n, const Fn& fn) {
    pool_.run(static_cast<int32_t>(divided(n, kPiece)), [&](int32_t item, int32_t /*worker*/) {
      const int64_t first = item * kPiece;
      fn(first, std::min(kPiece, n - first));
    });
  }

  /// A piece of the rows of a loss; of_target and room only where it is of distributions.
  struct LogitRows {
    Tensor logits, of_target, room;  // [rows, vocab]
    DistributionRow row(int32_t r) const { return {logits.row(r), of_target.row(r), room.row(r)}; }
  };
  /// fn(first row, LogitRows) for pieces of the rows, as many as have room.
  template <class Fn>
  void by_logits(const LossRows& of, const Fn& fn) {
    const int32_t vocab = of.head.rows, kinds = of.is_of_labels() ? 1 : 3;
    const auto rows = static_cast<int32_t>(std::clamp<int64_t>(kLogits / vocab / kinds, 64, kMaxLogitRows));
    const int64_t stride = divided<int64_t>(vocab, 16) * 16 + 16;
    const int32_t max_rows = std::min(rows, of.hidden.rows);
    float* const memory = logits_.floats(kinds * max_rows * stride);
    for (int32_t first = 0; first < of.hidden.rows; first += rows) {
      const int32_t n = std::min(rows, of.hidden.rows - first);
      const auto piece = [&](int32_t kind) { return Tensor{memory + kind * max_rows * stride, n, vocab, stride}; };
      LogitRows part;
      part.logits = piece(0);
      linear(of.hidden.part(first, n), of.head, Store::kOverwrite, part.logits);
      if (!of.is_of_labels()) {
        part.of_target = piece(1), part.room = piece(2);
        linear(of.target.part(first, n), of.head_of_target(), Store::kOverwrite, part.of_target);
      }
      fn(first, part);
    }
  }

  void rotate(Tensor x, int32_t head_dim, const RowRotation& rotation, float sign) {
    const int32_t half = head_dim / 2;
    for_rows(x.rows, [&](int32_t r) {
      const int64_t at = int64_t{rotation.positions[r]} * half;
      for (int32_t head = 0; head < x.cols; head += head_dim) {
        kernels_.rotate(x.row(r) + head, head_dim, rotation.cos + at, rotation.sin + at, sign);
      }
    });
  }

  /// Logits become the gradient of the loss times `sum`, so that the factor is applied to few values later.
  TokenLoss softmax(float* logits, int32_t n, int32_t label, float& sum) const {
    TokenLoss loss;
    loss.best = argmax(logits, n);
    const float highest = logits[loss.best];
    const float of_label = logits[label] - highest;
    sum = kernels_.exponentials(logits, n, highest);
    loss.loss = std::log(sum) - of_label;
    loss.probability = logits[label] / sum;
    logits[label] -= sum;
    return loss;
  }

  const TrainKernels& kernels_;
  ThreadPool pool_;
  BlockedProduct product_{pool_, kernels_};
  BlockAttentionRunner attention_{pool_, kernels_};
  TrainHeads heads_{pool_, kernels_};
  Scratch logits_;
  std::vector<float> sums_;  // of e^(logit - highest), by row
  std::vector<float> partials_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<TrainOps> make_cpu_train_ops(const DeviceOptions& options) {
  return std::make_unique<cpu::CpuTrainOps>(options);
}

}  // namespace ashlar
