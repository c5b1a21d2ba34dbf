// SPDX-License-Identifier: Apache-2.0
#include "device/ref/ref_train_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "device/copy_row.h"
#include "device/ref/ref_kernels.h"
#include "device/ref/ref_ops.h"
#include "device/ref/ref_train_heads.h"

namespace ashlar {
namespace {

void put(float& to, double value, Store store) { to = static_cast<float>(store == Store::kAdd ? to + value : value); }

double train_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class RefTrainOps final : public TrainOps {
 public:
  std::unique_ptr<Buffer> allocate(size_t bytes) override { return memory_->allocate(bytes); }
  std::unique_ptr<Buffer> allocate_shared(size_t bytes) override { return allocate(bytes); }
  void wait() override {}
  void upload(const void* from, std::byte* to, size_t bytes) override { memory_->upload(from, to, bytes); }
  void download(const std::byte* from, void* to, size_t bytes) override { memory_->download(from, to, bytes); }

  void linear(Tensor x, Tensor weight, Store store, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) {
      for (int32_t c = 0; c < out.cols; ++c) {
        put(out.row(r)[c], ref::dot(x.row(r), weight.row(c), x.cols), store);
      }
    }
  }
  void linear_input_gradient(Tensor d_out, Tensor weight, Store store, Tensor d_x) override {
    std::vector<double> row(static_cast<size_t>(d_x.cols));
    for (int32_t r = 0; r < d_x.rows; ++r) {
      std::fill(row.begin(), row.end(), 0.0);
      for (int32_t n = 0; n < weight.rows; ++n) {
        for (int32_t c = 0; c < d_x.cols; ++c) row[c] += static_cast<double>(d_out.row(r)[n]) * weight.row(n)[c];
      }
      for (int32_t c = 0; c < d_x.cols; ++c) put(d_x.row(r)[c], row[c], store);
    }
  }
  void linear_weight_gradient(Tensor d_out, Tensor x, Tensor d_weight) override {
    std::vector<double> row(static_cast<size_t>(d_weight.cols));
    for (int32_t n = 0; n < d_weight.rows; ++n) {
      std::fill(row.begin(), row.end(), 0.0);
      for (int32_t r = 0; r < x.rows; ++r) {
        for (int32_t c = 0; c < d_weight.cols; ++c) row[c] += static_cast<double>(d_out.row(r)[n]) * x.row(r)[c];
      }
      for (int32_t c = 0; c < d_weight.cols; ++c) put(d_weight.row(n)[c], row[c], Store::kAdd);
    }
  }

  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    for (int32_t r = 0; r < x.rows; ++r) ref::rms_norm(x.row(r), weight, x.cols, eps, out.row(r));
  }
  // With s = 1 / rms: dx = s (w dy - x s^2 mean(w dy x)), dw = sum over rows of dy x s.
  void rms_norm_gradient(Tensor d_out, Tensor x, const float* weight, float eps, Store store, Tensor d_x,
                         float* d_weight) override {
    std::vector<double> of_weight(static_cast<size_t>(x.cols));
    for (int32_t r = 0; r < x.rows; ++r) {
      double squares = 0;
      double product = 0;
      for (int32_t c = 0; c < x.cols; ++c) {
        const double value = x.row(r)[c];
        squares += value * value;
        product += value * weight[c] * d_out.row(r)[c];
      }
      const double s = 1 / std::sqrt(squares / x.cols + eps);
      for (int32_t c = 0; c < x.cols; ++c) {
        const double value = x.row(r)[c];
        const double d = d_out.row(r)[c];
        of_weight[c] += d * value * s;
        put(d_x.row(r)[c], s * (weight[c] * d - value * s * s * product / x.cols), store);
      }
    }
    for (int32_t c = 0; c < x.cols; ++c) put(d_weight[c], of_weight[c], Store::kAdd);
  }

  void rope(Tensor x, int32_t head_dim, const RowRotation& rotation) override { rotate(x, head_dim, rotation, 1); }
  void rope_gradient(Tensor d_x, int32_t head_dim, const RowRotation& rotation) override {
    rotate(d_x, head_dim, rotation, -1);
  }

  void silu_mul(Tensor gate, Tensor up, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) {
      for (int32_t c = 0; c < out.cols; ++c) {
        const double g = gate.row(r)[c];
        out.row(r)[c] = static_cast<float>(g * train_sigmoid(g) * up.row(r)[c]);
      }
    }
  }
  void silu_mul_gradient(Tensor d_out, Tensor gate, Tensor up, Tensor d_gate, Tensor d_up) override {
    for (int32_t r = 0; r < d_out.rows; ++r) {
      for (int32_t c = 0; c < d_out.cols; ++c) {
        const double d = d_out.row(r)[c];
        const double g = gate.row(r)[c];
        const double s = train_sigmoid(g);
        d_gate.row(r)[c] = static_cast<float>(d * up.row(r)[c] * s * (1 + g * (1 - s)));
        d_up.row(r)[c] = static_cast<float>(d * g * s);
      }
    }
  }

  void sigmoid_mul(Tensor gate, Tensor x, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) {
      for (int32_t c = 0; c < out.cols; ++c) {
        out.row(r)[c] = static_cast<float>(train_sigmoid(gate.row(r)[c]) * x.row(r)[c]);
      }
    }
  }
  void sigmoid_mul_gradient(Tensor d_out, Tensor gate, Tensor x, Tensor d_gate, Tensor d_x) override {
    for (int32_t r = 0; r < d_out.rows; ++r) {
      for (int32_t c = 0; c < d_out.cols; ++c) {
        const double d = d_out.row(r)[c];
        const double s = train_sigmoid(gate.row(r)[c]);
        d_gate.row(r)[c] = static_cast<float>(d * x.row(r)[c] * s * (1 - s));
        d_x.row(r)[c] = static_cast<float>(d * s);
      }
    }
  }

  void attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums) override {
    ref::block_attention(q, k, v, layout, out, log_sums);
  }
  void attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor /*out*/,
                          Tensor log_sums, Tensor d_q, Tensor d_k, Tensor d_v) override {
    ref::block_attention_gradient(d_out, q, k, v, layout, log_sums, d_q, d_k, d_v);
  }

  void cross_entropy(Tensor hidden, Tensor head, const int32_t* labels, TokenLoss* losses, Tensor d_hidden,
                     const Candidates& candidates) override {
    find_candidates(hidden, head, candidates);
    row_losses({hidden, head, labels}, losses, d_hidden);
  }
  void distribution_loss(Tensor hidden, Tensor target, Tensor head, DistributionLoss loss, TokenLoss* losses,
                         Tensor d_hidden, const Candidates& candidates) override {
    find_candidates(hidden, head, candidates);
    row_losses({hidden, head, nullptr, target, loss}, losses, d_hidden);
  }
  void head_gradient(const LossRows& rows, Tensor x, Tensor d_weight) override {
    std::vector<double> sums(static_cast<size_t>(d_weight.rows) * static_cast<size_t>(d_weight.cols));
    for (int32_t r = 0; r < rows.hidden.rows; ++r) {
      const RowGradient row = row_gradient(rows, r);
      for (int32_t id = 0; id < d_weight.rows; ++id) {
        double* const to = sums.data() + int64_t{id} * d_weight.cols;
        for (int32_t c = 0; c < d_weight.cols; ++c) to[c] += row.d_logits[static_cast<size_t>(id)] * x.row(r)[c];
      }
    }
    for (int32_t id = 0; id < d_weight.rows; ++id) {
      const double* const from = sums.data() + int64_t{id} * d_weight.cols;
      for (int32_t c = 0; c < d_weight.cols; ++c) put(d_weight.row(id)[c], from[c], Store::kAdd);
    }
  }

  void candidate_loss(const ChoosingRows& rows, TokenLoss* losses) override { ref::candidate_loss(rows, losses); }
  void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) override {
    ref::candidate_gradient(rows, weights, out);
  }
  void block_conv(const BlockConvolution& rows, Store store, Tensor out) override { ref::block_conv(rows, store, out); }
  void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic,
                           float* d_base) override {
    ref::block_conv_gradient(d_out, rows, d_x, d_dynamic, d_base);
  }
  void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) override {
    ref::add_rows(rows, ids, factors, scale, table);
  }

  void gather(Tensor table, const int32_t* ids, float scale, Tensor out) override {
    for (int32_t r = 0; r < out.rows; ++r) {
      for (int32_t c = 0; c < out.cols; ++c) out.row(r)[c] = table.row(ids[r])[c] * scale;
    }
  }
  void scatter(Tensor rows, const int32_t* ids, const float* scales, Store store, Tensor out) override {
    for (int32_t r = 0; r < out.rows && store == Store::kOverwrite; ++r) std::fill_n(out.row(r), out.cols, 0.0F);
    for (int32_t r = 0; r < rows.rows; ++r) {
      for (int32_t c = 0; c < out.cols; ++c) out.row(ids[r])[c] += rows.row(r)[c] * scales[r];
    }
  }

  void copy(Tensor x, Tensor out) override {
    for (int32_t r = 0; r < x.rows; ++r) copy_row(x, r, out.row(r));
  }
  void clear(float* values, int64_t n) override { std::fill_n(values, n, 0.0F); }
  double squared_norm(const float* values, int64_t n) override {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * values[i];
    return sum;
  }
  void scale(float* values, int64_t n, float factor) override {
    for (int64_t i = 0; i < n; ++i) values[i] *= factor;
  }
  void combine(float alpha, const float* x, float beta, const float* y, int64_t n, float* out) override {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<double>(alpha) * x[i] + beta * y[i]);
  }
  void adamw(const AdamW& step, const float* gradient, int64_t n, float* values, float* m, float* v) override {
    const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
    const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
    for (int64_t i = 0; i < n; ++i) {
      const double g = gradient[i];
      const double first = step.beta1 * m[i] + (1 - step.beta1) * g;
      const double second = step.beta2 * v[i] + (1 - step.beta2) * g * g;
      const double direction = first / correction1 / (std::sqrt(second / correction2) + step.eps);
      values[i] = static_cast<float>(values[i] - step.learning_rate * (direction + step.weight_decay * values[i]));
      m[i] = static_cast<float>(first);
      v[i] = static_cast<float>(second);
    }
  }

 private:
  static void find_candidates(Tensor hidden, Tensor head, const Candidates& candidates) {
    if (candidates.n == 0) return;
    std::vector<float> row(static_cast<size_t>(head.rows));
    for (int32_t r = 0; r < hidden.rows; ++r) {
      for (int32_t id = 0; id < head.rows; ++id) {
        row[static_cast<size_t>(id)] = static_cast<float>(ref::dot(hidden.row(r), head.row(id), hidden.cols));
      }
      const int64_t at = int64_t{r} * candidates.n;
      ref::find_candidates({row.data(), 1, head.rows, head.rows},
                           {candidates.n, candidates.ids + at, candidates.logits + at});
    }
  }
  struct RowGradient {
    TokenLoss loss;
    std::vector<double> d_logits;
  };
  static RowGradient row_gradient(const LossRows& rows, int32_t r) {
    const std::vector<double> log_q = log_softmax(rows.hidden.row(r), rows.head);
    const auto best = static_cast<int32_t>(std::max_element(log_q.begin(), log_q.end()) - log_q.begin());
    RowGradient out = {{}, std::vector<double>(log_q.size())};
    if (rows.is_of_labels()) {
      const auto label = static_cast<size_t>(rows.labels[r]);
      for (size_t id = 0; id < log_q.size(); ++id) out.d_logits[id] = std::exp(log_q[id]) - (id == label ? 1 : 0);
      out.loss = {static_cast<float>(-log_q[label]), static_cast<float>(std::exp(log_q[label])), best};
      return out;
    }
    const std::vector<double> log_p = log_softmax(rows.target.row(r), rows.head_of_target());
    double divergence = 0;
    double overlap = 0;
    double below = 0;
    for (size_t id = 0; id < log_q.size(); ++id) {
      const double p = std::exp(log_p[id]);
      const double q = std::exp(log_q[id]);
      divergence += p * (log_p[id] - log_q[id]);
      overlap += std::min(p, q);
      if (q < p) below += q;
    }
    const DistributionTerms terms = distribution_terms(rows.loss, divergence, overlap);
    for (size_t id = 0; id < log_q.size(); ++id) {
      const double p = std::exp(log_p[id]);
      const double q = std::exp(log_q[id]);
      out.d_logits[id] = terms.of_divergence * (q - p) + terms.of_overlap * q * ((q < p ? 1 : 0) - below);
    }
    out.loss = {static_cast<float>(terms.loss), static_cast<float>(overlap), best};
    return out;
  }
  static void row_losses(const LossRows& rows, TokenLoss* losses, Tensor d_hidden) {
    for (int32_t r = 0; r < rows.hidden.rows; ++r) {
      const RowGradient found = row_gradient(rows, r);
      losses[r] = found.loss;
      if (d_hidden.rows == 0) continue;
      std::vector<double> row(static_cast<size_t>(d_hidden.cols));
      for (int32_t id = 0; id < rows.head.rows; ++id) {
        for (int32_t c = 0; c < d_hidden.cols; ++c) {
          row[static_cast<size_t>(c)] += found.d_logits[static_cast<size_t>(id)] * rows.head.row(id)[c];
        }
      }
      for (int32_t c = 0; c < d_hidden.cols; ++c) d_hidden.row(r)[c] = static_cast<float>(row[static_cast<size_t>(c)]);
    }
  }
  static std::vector<double> log_softmax(const float* hidden, Tensor head) {
    std::vector<double> out(static_cast<size_t>(head.rows));
    for (int32_t id = 0; id < head.rows; ++id) out[id] = ref::dot(hidden, head.row(id), head.cols);
    const double highest = *std::max_element(out.begin(), out.end());
    double sum = 0;
    for (const double logit : out) sum += std::exp(logit - highest);
    for (double& logit : out) logit -= highest + std::log(sum);
    return out;
  }
  static void rotate(Tensor x, int32_t head_dim, const RowRotation& rotation, float sign) {
    const int32_t half = head_dim / 2;
    for (int32_t r = 0; r < x.rows; ++r) {
      const float* cos = rotation.cos + int64_t{rotation.positions[r]} * half;
      const float* sin = rotation.sin + int64_t{rotation.positions[r]} * half;
      for (int32_t head = 0; head < x.cols; head += head_dim) {
        float* values = x.row(r) + head;
        for (int32_t i = 0; i < half; ++i) {
          const float a = values[i];
          const float b = values[i + half];
          values[i] = a * cos[i] - sign * b * sin[i];
          values[i + half] = b * cos[i] + sign * a * sin[i];
        }
      }
    }
  }

  std::unique_ptr<Ops> memory_ = make_ref_ops();
};

}  // namespace

std::unique_ptr<TrainOps> make_ref_train_ops() { return std::make_unique<RefTrainOps>(); }

}  // namespace ashlar
