// SPDX-License-Identifier: Apache-2.0
// Each backward op of the reference device against differences of its forward op: what a small step along a random
// direction changes is the gradient's product with that direction.

#include <functional>

#include "device/train_ops.h"
#include "support.h"

namespace ashlar::conformance {
namespace {

constexpr double kStep = 1e-2;
constexpr double kTolerance = 2e-3;

class TrainGradients : public testing::Test {
 protected:
  Matrix normal(int32_t rows, int32_t cols, float deviation = 1) {
    Matrix m(rows, cols);
    m.fill_normal(random_, deviation);
    return m;
  }
  static double product(const Matrix& a, const Matrix& b) {
    double sum = 0;
    for (int32_t r = 0; r < a.rows(); ++r) {
      for (int32_t c = 0; c < a.cols(); ++c) sum += static_cast<double>(a.row(r)[c]) * b.row(r)[c];
    }
    return sum;
  }
  static Matrix moved(Matrix x, const Matrix& direction, double by) {
    for (int32_t r = 0; r < x.rows(); ++r) {
      for (int32_t c = 0; c < x.cols(); ++c) x.row(r)[c] += static_cast<float>(by * direction.row(r)[c]);
    }
    return x;
  }
  /// `loss` of x against its gradient there, along five directions.
  void check(Matrix x, const Matrix& gradient, const std::function<double(Matrix&)>& loss, const char* what) {
    const double length = std::sqrt(product(gradient, gradient));
    for (int i = 0; i < 5; ++i) {
      const Matrix direction = normal(x.rows(), x.cols());
      Matrix ahead = moved(x, direction, kStep);
      Matrix back = moved(x, direction, -kStep);
      const double found = (loss(ahead) - loss(back)) / (2 * kStep);
      EXPECT_NEAR(found, product(gradient, direction), kTolerance * (1 + length)) << what;
    }
  }

  std::unique_ptr<TrainOps> ops_ = make_train_ops("ref", {});
  std::mt19937 random_{20262};
};

TEST_F(TrainGradients, Linear) {
  Matrix x = normal(4, 6);
  Matrix weight = normal(5, 6);
  Matrix d_out = normal(4, 5);
  Matrix out(4, 5);
  Matrix d_x(4, 6);
  Matrix d_weight = normal(5, 6, 0);
  ops_->linear_input_gradient(d_out.view(), weight.view(), Store::kOverwrite, d_x.view());
  ops_->linear_weight_gradient(d_out.view(), x.view(), d_weight.view());
  const auto loss = [&](Matrix& x_now, Matrix& weight_now) {
    ops_->linear(x_now.view(), weight_now.view(), Store::kOverwrite, out.view());
    return product(out, d_out);
  };
  check(
      x, d_x, [&](Matrix& now) { return loss(now, weight); }, "x");
  check(
      weight, d_weight, [&](Matrix& now) { return loss(x, now); }, "weight");
}

TEST_F(TrainGradients, RmsNorm) {
  Matrix x = normal(4, 6);
  Matrix weight = normal(1, 6);
  Matrix d_out = normal(4, 6);
  Matrix out(4, 6);
  Matrix d_x(4, 6);
  Matrix d_weight = normal(1, 6, 0);
  ops_->rms_norm_gradient(d_out.view(), x.view(), weight.row(0), 0.1F, Store::kOverwrite, d_x.view(), d_weight.row(0));
  const auto loss = [&](Matrix& x_now, Matrix& weight_now) {
    ops_->rms_norm(x_now.view(), weight_now.row(0), 0.1F, out.view());
    return product(out, d_out);
  };
  check(
      x, d_x, [&](Matrix& now) { return loss(now, weight); }, "x");
  check(
      weight, d_weight, [&](Matrix& now) { return loss(x, now); }, "weight");
}

TEST_F(TrainGradients, Rope) {
  Matrix cos = normal(3, 2);
  Matrix sin = normal(3, 2);
  std::vector<float> tables;
  for (Matrix* table : {&cos, &sin}) {
    for (int32_t r = 0; r < 3; ++r) tables.insert(tables.end(), table->row(r), table->row(r) + 2);
  }
  const std::vector<int32_t> positions = {2, 0, 1, 2};
  const RowRotation rotation = {tables.data(), tables.data() + 6, positions.data()};
  Matrix d_out = normal(4, 8);
  Matrix d_x = d_out;
  ops_->rope_gradient(d_x.view(), 4, rotation);
  check(
      normal(4, 8), d_x,
      [&](Matrix& now) {
        ops_->rope(now.view(), 4, rotation);
        return product(now, d_out);
      },
      "x");
}

TEST_F(TrainGradients, Gates) {
  Matrix gate = normal(4, 6, 2);
  Matrix up = normal(4, 6);
  Matrix d_out = normal(4, 6);
  Matrix out(4, 6);
  Matrix d_gate(4, 6);
  Matrix d_up(4, 6);
  const auto check_both = [&](void (TrainOps::*op)(Tensor, Tensor, Tensor),
                              void (TrainOps::*gradient)(Tensor, Tensor, Tensor, Tensor, Tensor)) {
    (ops_.get()->*gradient)(d_out.view(), gate.view(), up.view(), d_gate.view(), d_up.view());
    const auto loss = [&](Matrix& gate_now, Matrix& up_now) {
      (ops_.get()->*op)(gate_now.view(), up_now.view(), out.view());
      return product(out, d_out);
    };
    check(
        gate, d_gate, [&](Matrix& now) { return loss(now, up); }, "gate");
    check(
        up, d_up, [&](Matrix& now) { return loss(gate, now); }, "up");
  };
  check_both(&TrainOps::silu_mul, &TrainOps::silu_mul_gradient);
  check_both(&TrainOps::sigmoid_mul, &TrainOps::sigmoid_mul_gradient);
}

TEST_F(TrainGradients, Attention) {
  const std::vector<BlockContext> blocks = {{0, 0}, {0, 4}, {0, 9}, {9, 2}};
  for (const auto& [window, causal] : {std::pair{0, false}, {6, false}, {5, true}}) {
    const BlockAttention layout = {4, 2, 4, 3, 11, window, causal, blocks};
    const int32_t rows = layout.block_rows();
    Matrix q = normal(rows, layout.width());
    Matrix k = normal(rows + 11, layout.kv_width());
    Matrix v = normal(rows + 11, layout.kv_width());
    Matrix d_out = normal(rows, layout.width());
    Matrix out(rows, layout.width());
    Matrix log_sums(rows, 4);
    const auto loss = [&](Matrix& q_now, Matrix& k_now, Matrix& v_now) {
      ops_->attention(q_now.view(), k_now.view(), v_now.view(), layout, out.view(), log_sums.view());
      return product(out, d_out);
    };
    loss(q, k, v);
    Matrix d_q = q;
    Matrix d_k = k;
    Matrix d_v = v;
    ops_->attention_gradient(d_out.view(), q.view(), k.view(), v.view(), layout, out.view(), log_sums.view(),
                             d_q.view(), d_k.view(), d_v.view());
    check(
        q, d_q, [&](Matrix& now) { return loss(now, k, v); }, "q");
    check(
        k, d_k, [&](Matrix& now) { return loss(q, now, v); }, "k");
    check(
        v, d_v, [&](Matrix& now) { return loss(q, k, now); }, "v");
  }
}

TEST_F(TrainGradients, CrossEntropy) {
  Matrix hidden = normal(4, 6, 0.5F);
  Matrix head = normal(9, 6);
  const std::vector<int32_t> labels = {0, 8, 3, 3};
  std::vector<TokenLoss> losses(4);
  Matrix d_hidden(4, 6);
  Matrix none(0, 6);
  ops_->cross_entropy(hidden.view(), head.view(), labels.data(), losses.data(), d_hidden.view(), {});
  check(
      hidden, d_hidden,
      [&](Matrix& now) {
        ops_->cross_entropy(now.view(), head.view(), labels.data(), losses.data(), none.view(), {});
        double sum = 0;
        for (const TokenLoss& loss : losses) sum += loss.loss;
        return sum;
      },
      "hidden");
  Matrix d_head = normal(9, 6, 0);
  ops_->head_gradient({hidden.view(), head.view(), labels.data()}, hidden.view(), d_head.view());
  check(
      head, d_head,
      [&](Matrix& now) {
        ops_->cross_entropy(hidden.view(), now.view(), labels.data(), losses.data(), none.view(), {});
        double sum = 0;
        for (const TokenLoss& loss : losses) sum += loss.loss;
        return sum;
      },
      "head");
}

// That of kLk holds its share for a constant, so it is made of the others' row by row.
TEST_F(TrainGradients, DistributionLoss) {
  Matrix hidden = normal(4, 6, 0.5F);
  Matrix target = normal(4, 6, 0.5F);
  Matrix head = normal(9, 6);
  std::vector<TokenLoss> losses(4);
  Matrix none(0, 6);
  const auto gradient = [&](DistributionLoss loss) {
    Matrix out(4, 6);
    ops_->distribution_loss(hidden.view(), target.view(), head.view(), loss, losses.data(), out.view(), {});
    return out;
  };
  for (const DistributionLoss loss : {DistributionLoss::kKl, DistributionLoss::kTv, DistributionLoss::kOverlap}) {
    check(
        hidden, gradient(loss),
        [&](Matrix& now) {
          ops_->distribution_loss(now.view(), target.view(), head.view(), loss, losses.data(), none.view(), {});
          double sum = 0;
          for (const TokenLoss& row : losses) sum += row.loss;
          return sum;
        },
        "hidden");
  }
  Matrix kl = gradient(DistributionLoss::kKl), tv = gradient(DistributionLoss::kTv),
         lk = gradient(DistributionLoss::kLk);
  for (int32_t r = 0; r < 4; ++r) {
    const double share = std::exp(-3.0 * losses[static_cast<size_t>(r)].probability);
    for (int32_t c = 0; c < 6; ++c) EXPECT_NEAR(lk.row(r)[c], share * kl.row(r)[c] + (1 - share) * tv.row(r)[c], 1e-6);
  }
}

TEST_F(TrainGradients, BlockConv) {
  constexpr int32_t kTaps = 3;
  Matrix x = normal(10, 6);
  Matrix dynamic = normal(10, kTaps * 2);
  Matrix base = normal(1, kTaps * 6);
  Matrix d_out = normal(10, 6);
  Matrix out(10, 6);
  Matrix d_x(10, 6);
  Matrix d_dynamic(10, kTaps * 2);
  Matrix d_base = normal(1, kTaps * 6, 0);
  const auto rows = [&](Matrix& x_now, Matrix& dynamic_now, Matrix& base_now) {
    return BlockConvolution{x_now.view(), dynamic_now.view(), {kTaps, 3, base_now.row(0)}, 5};
  };
  ops_->block_conv_gradient(d_out.view(), rows(x, dynamic, base), d_x.view(), d_dynamic.view(), d_base.row(0));
  const auto loss = [&](const BlockConvolution& now) {
    ops_->block_conv(now, Store::kOverwrite, out.view());
    return product(out, d_out);
  };
  check(
      x, d_x, [&](Matrix& now) { return loss(rows(now, dynamic, base)); }, "x");
  check(
      dynamic, d_dynamic, [&](Matrix& now) { return loss(rows(x, now, base)); }, "dynamic");
  check(
      base, d_base, [&](Matrix& now) { return loss(rows(x, dynamic, now)); }, "base");
}

// Of all tokens as candidates, so that a small step changes none. Rows have labels and tokens before them in common.
TEST_F(TrainGradients, Candidates) {
  constexpr int32_t kRows = 5, kVocab = 7, kRank = 4;
  const std::vector<int32_t> labels = {0, 6, 3, 3, 1}, before = {2, 2, 0, 6, 2};
  const std::vector<float> weights = {1, 0.5F, 2, 0, 1.5F};
  Matrix hidden = normal(kRows, 6, 0.5F), head = normal(kVocab, 6), projected = normal(kRows, kRank);
  Matrix predecessors = normal(kVocab, kRank), successors = normal(kVocab, kRank);
  std::vector<int32_t> ids(kRows * kVocab), plain_labels(kRows);
  std::vector<float> logits(ids.size());
  std::vector<TokenLoss> losses(kRows), plain(kRows);
  Matrix none(0, 6);
  const Candidates candidates = {kVocab, ids.data(), logits.data()};
  const auto rows = [&](Matrix& h, Matrix& p, Matrix& a, Matrix& b) {
    ops_->cross_entropy(h.view(), head.view(), plain_labels.data(), plain.data(), none.view(), candidates);
    return ChoosingRows{candidates, labels.data(), before.data(), h.view(), head.view(),
                        p.view(),   a.view(),      b.view(),      0.5F};
  };
  const auto loss = [&](Matrix& h, Matrix& p, Matrix& a, Matrix& b) {
    ops_->candidate_loss(rows(h, p, a, b), losses.data());
    double sum = 0;
    for (size_t r = 0; r < losses.size(); ++r) sum += double{weights[r]} * losses[r].loss;
    return sum;
  };
  Matrix d_hidden(kRows, 6), d_projected(kRows, kRank), of_before(kRows, kRank), of_after(kRows, kRank);
  Matrix d_predecessors = normal(kVocab, kRank, 0), d_successors = normal(kVocab, kRank, 0);
  const ChoosingRows now = rows(hidden, projected, predecessors, successors);
  ops_->candidate_loss(now, losses.data());
  ops_->candidate_gradient(now, weights.data(),
                           {d_hidden.view(), d_projected.view(), of_before.view(), of_after.view()});
  ops_->add_rows(of_before.view(), before, nullptr, 1, d_predecessors.view());
  ops_->add_rows(of_after.view(), ids, logits.data(), 1, d_successors.view());
  check(
      hidden, d_hidden, [&](Matrix& x) { return loss(x, projected, predecessors, successors); }, "hidden");
  check(
      projected, d_projected, [&](Matrix& x) { return loss(hidden, x, predecessors, successors); }, "projected");
  check(
      predecessors, d_predecessors, [&](Matrix& x) { return loss(hidden, projected, x, successors); }, "predecessors");
  check(
      successors, d_successors, [&](Matrix& x) { return loss(hidden, projected, predecessors, x); }, "successors");
}

}  // namespace
}  // namespace ashlar::conformance
