// SPDX-License-Identifier: Apache-2.0
// The ops of training: every instruction set of the cpu device, and the cuda device, against the reference device.

#include "device/train_ops.h"

#include "base/error.h"
#include "staged_train_ops.h"
#include "support.h"

namespace ashlar::conformance {
namespace {

constexpr double kTolerance = 2e-5;
constexpr DistributionLoss kDistributionLosses[] = {DistributionLoss::kKl, DistributionLoss::kTv,
                                                    DistributionLoss::kOverlap, DistributionLoss::kLk};

class TrainOpsOnIsa : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    options_.threads = 3;
    if (on_gpu()) {
      try {
        ops_ = std::make_unique<StagedTrainOps>(make_train_ops("cuda", options_));
      } catch (const Error& error) {
        GTEST_SKIP() << error.what();
      }
      return;
    }
    const std::vector<std::string> have = isa_choices();
    if (std::find(have.begin(), have.end(), GetParam()) == have.end()) GTEST_SKIP() << "no " << GetParam() << " here";
    options_.isa = GetParam();
    ops_ = make_train_ops("cpu", options_);
  }

  bool on_gpu() const { return GetParam() == "cuda"; }
  /// Of products, whose factors the GPU rounds to 10 bits of mantissa.
  double bound(double of_fp32, double of_tf32) const { return on_gpu() ? of_tf32 : of_fp32; }

  Matrix normal(int32_t rows, int32_t cols, float deviation = 1, int32_t extra_stride = 5) {
    Matrix m(rows, cols, extra_stride);
    m.fill_normal(random_, deviation);
    return m;
  }
  /// call(ops, out) for both devices, which begin with the same `out`.
  template <class Call>
  void compare(const Matrix& out, const Call& call, const char* what, double tolerance = kTolerance) {
    Matrix got = out;
    Matrix want = out;
    call(*ops_, got);
    call(*ref_, want);
    EXPECT_LT(worst_row_error(got, want), tolerance) << what;
    EXPECT_TRUE(got.guards_intact()) << what;
  }

  DeviceOptions options_;
  std::unique_ptr<TrainOps> ops_;
  std::unique_ptr<TrainOps> ref_ = make_train_ops("ref", {});
  std::mt19937 random_{20261};
};

struct Size {
  int32_t m, n, k;
};
// Less and more than a tile, a panel, a piece of depth, what is packed at a time; no multiples of any.
constexpr Size kSizes[] = {{1, 1, 1},      {3, 5, 7},      {14, 32, 16}, {29, 33, 257},
                           {200, 70, 300}, {17, 4130, 40}, {5, 3, 600}};

TEST_P(TrainOpsOnIsa, Products) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(std::to_string(size.m) + " x " + std::to_string(size.n) + " x " + std::to_string(size.k));
    Matrix x = normal(size.m, size.k);
    Matrix weight = normal(size.n, size.k);
    Matrix d_out = normal(size.m, size.n);
    for (const Store store : {Store::kOverwrite, Store::kAdd}) {
      compare(
          normal(size.m, size.n),
          [&](TrainOps& ops, Matrix& out) { ops.linear(x.view(), weight.view(), store, out.view()); }, "linear",
          bound(kTolerance, 5e-3));
      compare(
          normal(size.m, size.k),
          [&](TrainOps& ops, Matrix& d_x) {
            ops.linear_input_gradient(d_out.view(), weight.view(), store, d_x.view());
          },
          "linear_input_gradient", bound(kTolerance, 5e-3));
    }
    compare(
        normal(size.n, size.k),
        [&](TrainOps& ops, Matrix& d_weight) { ops.linear_weight_gradient(d_out.view(), x.view(), d_weight.view()); },
        "linear_weight_gradient", bound(kTolerance, 5e-3));
  }
}

TEST_P(TrainOpsOnIsa, NoRows) {
  Matrix x(0, 8);
  Matrix weight = normal(4, 8);
  Matrix out(0, 4);
  ops_->linear(x.view(), weight.view(), Store::kOverwrite, out.view());
  Matrix gradient = normal(4, 8);
  compare(
      gradient,
      [&](TrainOps& ops, Matrix& d_weight) { ops.linear_weight_gradient(out.view(), x.view(), d_weight.view()); },
      "linear_weight_gradient");
}

TEST_P(TrainOpsOnIsa, RmsNorm) {
  // Of very few columns nearly everything that is summed cancels.
  for (const int32_t cols : {7, 8, 64, 77, 256}) {
    for (const int32_t rows : {1, 33, 2100}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
      Matrix x = normal(rows, cols);
      Matrix weight = normal(1, cols);
      Matrix d_out = normal(rows, cols);
      compare(
          Matrix(rows, cols),
          [&](TrainOps& ops, Matrix& out) { ops.rms_norm(x.view(), weight.row(0), 1e-3F, out.view()); }, "rms_norm");
      for (const Store store : {Store::kOverwrite, Store::kAdd}) {
        Matrix unused(rows, cols);
        compare(
            normal(rows, cols),
            [&](TrainOps& ops, Matrix& d_x) {
              Matrix d_weight(1, cols);
              ops.rms_norm_gradient(d_out.view(), x.view(), weight.row(0), 1e-3F, store, d_x.view(), d_weight.row(0));
            },
            "rms_norm_gradient of x", 1e-4);
        compare(
            normal(1, cols),
            [&](TrainOps& ops, Matrix& d_weight) {
              ops.rms_norm_gradient(d_out.view(), x.view(), weight.row(0), 1e-3F, store, unused.view(),
                                    d_weight.row(0));
            },
            "rms_norm_gradient of the weight", 1e-4);
      }
      compare(
          d_out,
          [&](TrainOps& ops, Matrix& d_x) {
            Matrix d_weight(1, cols);
            ops.rms_norm_gradient(d_x.view(), x.view(), weight.row(0), 1e-3F, Store::kOverwrite, d_x.view(),
                                  d_weight.row(0));
          },
          "rms_norm_gradient in place", 1e-4);
    }
  }
}

TEST_P(TrainOpsOnIsa, Rope) {
  for (const int32_t head_dim : {2, 8, 24, 64, 128}) {
    const int32_t half = head_dim / 2;
    Matrix cos = normal(50, half, 1, 0);
    Matrix sin = normal(50, half, 1, 0);
    const std::vector<int32_t> positions = {7, 0, 49, 7, 23};
    const RowRotation rotation = {cos.row(0), sin.row(0), positions.data()};
    const Matrix x = normal(5, 3 * head_dim);
    compare(
        x, [&](TrainOps& ops, Matrix& out) { ops.rope(out.view(), head_dim, rotation); }, "rope");
    compare(
        x, [&](TrainOps& ops, Matrix& out) { ops.rope_gradient(out.view(), head_dim, rotation); }, "rope_gradient");
  }
}

TEST_P(TrainOpsOnIsa, SiluMul) {
  for (const int32_t cols : {1, 16, 85}) {
    Matrix gate = normal(37, cols, 4);
    Matrix up = normal(37, cols);
    Matrix d_out = normal(37, cols);
    gate.row(3)[0] = 100;
    gate.row(4)[0] = -100;
    compare(
        Matrix(37, cols), [&](TrainOps& ops, Matrix& out) { ops.silu_mul(gate.view(), up.view(), out.view()); },
        "silu_mul");
    Matrix other(37, cols);
    compare(
        Matrix(37, cols),
        [&](TrainOps& ops, Matrix& d_gate) {
          ops.silu_mul_gradient(d_out.view(), gate.view(), up.view(), d_gate.view(), other.view());
        },
        "silu_mul_gradient of the gate");
    compare(
        d_out,
        [&](TrainOps& ops, Matrix& d_up) {
          ops.silu_mul_gradient(d_up.view(), gate.view(), up.view(), other.view(), d_up.view());
        },
        "silu_mul_gradient of the other, in place");
  }
}

struct AttentionCase {
  int32_t heads, kv_heads, head_dim, block, window;
  std::vector<BlockContext> blocks;
  int32_t context_rows;
};

TEST_P(TrainOpsOnIsa, Attention) {
  const AttentionCase cases[] = {
      {1, 1, 2, 2, 0, {{0, 0}}, 0},
      {4, 2, 8, 3, 0, {{0, 0}, {0, 1}, {0, 7}, {0, 150}, {150, 3}, {153, 40}}, 200},  // rows after the last block's
      {4, 2, 64, 16, 0, {{0, 20}, {0, 300}}, 300},
      {3, 3, 24, 5, 11, {{0, 4}, {0, 30}, {0, 290}, {290, 9}}, 299},
      {2, 1, 128, 4, 4, {{0, 140}, {0, 141}}, 141},
  };
  for (const AttentionCase& c : cases) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    const BlockAttention layout = {c.heads, c.kv_heads, c.head_dim, c.block, c.context_rows, c.window, c.blocks};
    const int32_t rows = layout.block_rows();
    const int32_t keys = rows + c.context_rows;
    Matrix q = normal(rows, layout.width(), 2);
    Matrix k = normal(keys, layout.kv_width());
    Matrix v = normal(keys, layout.kv_width());
    Matrix d_out = normal(rows, layout.width());
    Matrix out(rows, layout.width());
    Matrix log_sums(rows, c.heads);
    ref_->attention(q.view(), k.view(), v.view(), layout, out.view(), log_sums.view());
    Matrix other(rows, c.heads);
    compare(
        out,
        [&](TrainOps& ops, Matrix& to) {
          ops.attention(q.view(), k.view(), v.view(), layout, to.view(), other.view());
        },
        "attention");
    EXPECT_LT(worst_row_error(other, log_sums), kTolerance);
    Matrix d_q(rows, layout.width());
    Matrix d_k(keys, layout.kv_width());
    Matrix d_v(keys, layout.kv_width());
    const auto gradient = [&](TrainOps& ops, Matrix& to_q, Matrix& to_k, Matrix& to_v) {
      ops.attention_gradient(d_out.view(), q.view(), k.view(), v.view(), layout, out.view(), log_sums.view(),
                             to_q.view(), to_k.view(), to_v.view());
    };
    compare(
        d_q, [&](TrainOps& ops, Matrix& to) { gradient(ops, to, d_k, d_v); }, "d_q", 1e-4);
    compare(
        d_k, [&](TrainOps& ops, Matrix& to) { gradient(ops, d_q, to, d_v); }, "d_k", 1e-4);
    compare(
        d_v, [&](TrainOps& ops, Matrix& to) { gradient(ops, d_q, d_k, to); }, "d_v", 1e-4);
  }
}

TEST_P(TrainOpsOnIsa, CrossEntropy) {
  const Size sizes[] = {{1, 2, 4}, {70, 333, 24}, {1100, 40, 8}};  // the last one takes two pieces of rows
  for (const Size& size : sizes) {
    Matrix hidden = normal(size.m, size.k);
    Matrix head = normal(size.n, size.k);
    std::vector<int32_t> labels(static_cast<size_t>(size.m));
    for (int32_t& label : labels) label = static_cast<int32_t>(random_() % static_cast<uint32_t>(size.n));
    std::vector<TokenLoss> got(labels.size());
    std::vector<TokenLoss> want(labels.size());
    compare(
        Matrix(size.m, size.k),
        [&](TrainOps& ops, Matrix& d_hidden) {
          ops.cross_entropy(hidden.view(), head.view(), labels.data(), &ops == ops_.get() ? got.data() : want.data(),
                            d_hidden.view(), {});
        },
        "d_hidden", bound(1e-4, 1e-2));
    for (size_t i = 0; i < labels.size(); ++i) {
      ASSERT_NEAR(got[i].loss, want[i].loss, bound(1e-5, 3e-3) * (1 + want[i].loss));
      ASSERT_NEAR(got[i].probability, want[i].probability, bound(1e-5, 5e-3));
      // Logits that are near each other may change places.
      if (!on_gpu()) {
        ASSERT_EQ(got[i].best, want[i].best);
      }
    }
    std::vector<TokenLoss> alone(labels.size());
    Matrix none(0, size.k);
    ops_->cross_entropy(hidden.view(), head.view(), labels.data(), alone.data(), none.view(), {});
    for (size_t i = 0; i < labels.size(); ++i) ASSERT_EQ(alone[i].loss, got[i].loss);
  }
}

TEST_P(TrainOpsOnIsa, DistributionLoss) {
  const Size sizes[] = {{1, 2, 4}, {70, 333, 24}, {1100, 40, 8}};  // the last one takes two pieces of rows
  for (const Size& size : sizes) {
    for (const DistributionLoss loss : kDistributionLosses) {
      SCOPED_TRACE("loss " + std::to_string(static_cast<int>(loss)) + " of " + std::to_string(size.n) + " logits");
      Matrix hidden = normal(size.m, size.k, 0.7F);
      Matrix target = normal(size.m, size.k, 0.7F);
      Matrix head = normal(size.n, size.k);
      // So that no factor of the logits is rounded on the GPU: the gradients of some losses jump where the chance of a
      // token passes the target's.
      for (Matrix* factor : {&hidden, &target, &head}) factor->round_to_bf16();
      std::vector<TokenLoss> got(static_cast<size_t>(size.m)), want(got.size());
      compare(
          Matrix(size.m, size.k),
          [&](TrainOps& ops, Matrix& d_hidden) {
            ops.distribution_loss(hidden.view(), target.view(), head.view(), loss,
                                  &ops == ops_.get() ? got.data() : want.data(), d_hidden.view(), {});
          },
          "d_hidden", bound(1e-3, 5e-2));
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i].loss, want[i].loss, bound(2e-5, 1e-2) * (1 + want[i].loss));
        ASSERT_NEAR(got[i].probability, want[i].probability, bound(1e-5, 5e-3));
        if (!on_gpu()) {
          ASSERT_EQ(got[i].best, want[i].best);
        }
      }
      std::vector<TokenLoss> alone(got.size());
      Matrix none(0, size.k);
      ops_->distribution_loss(hidden.view(), target.view(), head.view(), loss, alone.data(), none.view(), {});
      for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(alone[i].loss, got[i].loss);
    }
  }
}

// Of the target's own rows every loss is none, and there is nothing to change.
TEST_P(TrainOpsOnIsa, DistributionLossOfEqualRows) {
  Matrix hidden = normal(9, 24);
  Matrix head = normal(333, 24);
  for (const DistributionLoss loss : kDistributionLosses) {
    Matrix d_hidden(9, 24);
    std::vector<TokenLoss> losses(9);
    ops_->distribution_loss(hidden.view(), hidden.view(), head.view(), loss, losses.data(), d_hidden.view(), {});
    for (const TokenLoss& row : losses) {
      EXPECT_NEAR(row.loss, 0, 1e-5);
      EXPECT_NEAR(row.probability, 1, 1e-5);
    }
    for (int32_t r = 0; r < 9; ++r) {
      for (int32_t c = 0; c < 24; ++c) EXPECT_NEAR(d_hidden.row(r)[c], 0, 1e-5);
    }
  }
}

struct ConvCase {
  int32_t rows, channels, taps, group, block;
};

TEST_P(TrainOpsOnIsa, BlockConv) {
  for (const ConvCase& c : {ConvCase{4, 4, 2, 4, 2}, {35, 24, 3, 4, 5}, {66, 48, 2, 16, 6}, {2064, 40, 4, 20, 16}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.channels));
    Matrix x = normal(c.rows, c.channels);
    Matrix dynamic = normal(c.rows, c.taps * (c.channels / c.group));
    Matrix base = normal(1, c.taps * c.channels);
    Matrix d_out = normal(c.rows, c.channels);
    const BlockConvolution rows = {x.view(), dynamic.view(), {c.taps, c.group, base.row(0)}, c.block};
    for (const Store store : {Store::kOverwrite, Store::kAdd}) {
      compare(
          normal(c.rows, c.channels), [&](TrainOps& ops, Matrix& out) { ops.block_conv(rows, store, out.view()); },
          "block_conv");
    }
    Matrix d_x(c.rows, c.channels), d_dynamic(c.rows, dynamic.cols()), d_base = normal(1, base.cols());
    const auto gradient = [&](TrainOps& ops, Matrix& of_x, Matrix& of_dynamic, Matrix& of_base) {
      ops.block_conv_gradient(d_out.view(), rows, of_x.view(), of_dynamic.view(), of_base.row(0));
    };
    compare(
        d_x, [&](TrainOps& ops, Matrix& to) { gradient(ops, to, d_dynamic, d_base); }, "d_x");
    compare(
        d_dynamic, [&](TrainOps& ops, Matrix& to) { gradient(ops, d_x, to, d_base); }, "d_dynamic", 1e-4);
    compare(
        normal(1, base.cols()), [&](TrainOps& ops, Matrix& to) { gradient(ops, d_x, d_dynamic, to); }, "d_base", 1e-4);
  }
}

// Candidates are those that serving finds; a label that is none of them takes the last place.
TEST_P(TrainOpsOnIsa, Candidates) {
  struct Case {
    int32_t rows, vocab, width, rank, n;
  };
  for (const Case& c : {Case{1, 2, 4, 1, 1}, {70, 333, 24, 37, 16}, {1100, 40, 8, 8, 5}, {9, 50, 8, 64, 32}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " of " + std::to_string(c.n));
    Matrix hidden = normal(c.rows, c.width), head = normal(c.vocab, c.width), projected = normal(c.rows, c.rank);
    Matrix predecessors = normal(c.vocab, c.rank, 0.3F), successors = normal(c.vocab, c.rank, 0.3F);
    // So that no factor of the logits is rounded on the GPU, and candidates are the same.
    for (Matrix* factor : {&hidden, &head}) factor->round_to_bf16();
    const auto draw = [&](std::vector<int32_t>& ids) {
      for (int32_t& id : ids) id = static_cast<int32_t>(random_() % static_cast<uint32_t>(c.vocab));
    };
    std::vector<int32_t> labels(static_cast<size_t>(c.rows)), before(labels.size());
    draw(labels);
    draw(before);
    struct Found {
      std::vector<int32_t> ids;
      std::vector<float> d_scores;
      std::vector<TokenLoss> losses;
      Matrix hidden, projected, before, after, codes;
    };
    const auto run = [&](TrainOps& ops) {
      const auto size = static_cast<size_t>(c.rows * c.n);
      const Matrix of_rank(c.rows, c.rank);
      Found found = {std::vector<int32_t>(size),
                     std::vector<float>(size),
                     std::vector<TokenLoss>(labels.size()),
                     Matrix(c.rows, c.width),
                     of_rank,
                     of_rank,
                     of_rank,
                     Matrix(c.vocab, c.rank)};
      const Candidates candidates = {c.n, found.ids.data(), found.d_scores.data()};
      Matrix none(0, c.width);
      ops.cross_entropy(hidden.view(), head.view(), labels.data(), found.losses.data(), none.view(), candidates);
      const ChoosingRows rows = {candidates,       labels.data(),       before.data(),     hidden.view(), head.view(),
                                 projected.view(), predecessors.view(), successors.view(), 0.7F};
      ops.candidate_loss(rows, found.losses.data());
      const std::vector<float> weights(labels.size(), 0.5F);
      ops.candidate_gradient(rows, weights.data(),
                             {found.hidden.view(), found.projected.view(), found.before.view(), found.after.view()});
      for (int32_t r = 0; r < c.vocab; ++r) std::fill_n(found.codes.row(r), c.rank, 1.0F);
      ops.add_rows(found.after.view(), found.ids, found.d_scores.data(), 2, found.codes.view());
      ops.add_rows(found.before.view(), before, nullptr, 1, found.codes.view());
      return found;
    };
    const Found got = run(*ops_), want = run(*ref_);
    EXPECT_EQ(got.ids, want.ids);
    for (size_t i = 0; i < labels.size(); ++i) {
      ASSERT_NEAR(got.losses[i].loss, want.losses[i].loss, 1e-4 * (1 + want.losses[i].loss));
      ASSERT_NEAR(got.losses[i].probability, want.losses[i].probability, 1e-4);
      ASSERT_EQ(got.losses[i].best, want.losses[i].best);
    }
    EXPECT_LT(worst_row_error(got.hidden, want.hidden), 1e-3);
    EXPECT_LT(worst_row_error(got.projected, want.projected), 1e-3);
    EXPECT_LT(worst_row_error(got.before, want.before), 1e-3);
    EXPECT_LT(worst_row_error(got.after, want.after), 1e-3);
    EXPECT_LT(worst_row_error(got.codes, want.codes), 1e-3);
  }
}

TEST_P(TrainOpsOnIsa, RowsAndArrays) {
  Matrix table = normal(40, 19);
  const std::vector<int32_t> ids = {3, 39, 0, 7, 12};
  const std::vector<float> scales = {1, -2, 0.5F, 0, 3};
  Matrix rows = normal(5, 19);
  compare(
      Matrix(5, 19), [&](TrainOps& ops, Matrix& out) { ops.gather(table.view(), ids.data(), 1.5F, out.view()); },
      "gather", 1e-7);
  compare(
      normal(40, 19),
      [&](TrainOps& ops, Matrix& out) { ops.scatter(rows.view(), ids.data(), scales.data(), out.view()); }, "scatter",
      1e-7);
  compare(
      Matrix(40, 19), [&](TrainOps& ops, Matrix& out) { ops.copy(table.view(), out.view()); }, "copy", 1e-9);
  std::vector<BFloat16> narrow(40 * 20);
  for (int32_t i = 0; i < 40 * 19; ++i)
    narrow[static_cast<size_t>(i / 19 * 20 + i % 19)] = to_bf16(table.row(i / 19)[i % 19]);
  compare(
      Matrix(40, 19),
      [&](TrainOps& ops, Matrix& out) {
        ops.copy({narrow.data(), 40, 19, 20, DType::kBF16}, out.view());
      },
      "copy of bf16", 1e-9);
  constexpr int32_t kValues = 40001;  // more than one piece
  const Matrix values = normal(1, kValues);
  compare(
      values, [](TrainOps& ops, Matrix& x) { ops.scale(x.row(0), kValues, 0.3F); }, "scale", 1e-6);
  compare(
      values, [](TrainOps& ops, Matrix& x) { ops.clear(x.row(0), kValues); }, "clear");
  const Matrix other = normal(1, kValues);
  compare(
      values, [&](TrainOps& ops, Matrix& x) { ops.combine(0.3F, x.row(0), -2, other.row(0), kValues, x.row(0)); },
      "combine", 1e-6);
  EXPECT_NEAR(ops_->squared_norm(values.row(0), kValues), ref_->squared_norm(values.row(0), kValues), 0.05);
}

TEST_P(TrainOpsOnIsa, AdamWStep) {
  constexpr int32_t kValues = 40001;
  Matrix gradient = normal(1, kValues);
  for (const int64_t number : {1, 2, 1000}) {
    const AdamW step = {1e-2, 0.9, 0.95, 1e-8, 0.1, number};
    Matrix state = normal(3, kValues);
    for (int32_t i = 0; i < kValues; ++i) state.row(2)[i] = std::abs(state.row(2)[i]);
    compare(
        state,
        [&](TrainOps& ops, Matrix& x) { ops.adamw(step, gradient.row(0), kValues, x.row(0), x.row(1), x.row(2)); },
        "adamw", 1e-5);
  }
}

std::vector<std::string> places() {
  std::vector<std::string> all = {"portable", "avx2", "avx512"};
  for (const std::string& device : device_names()) {
    if (device == "cuda") all.push_back(device);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Isa, TrainOpsOnIsa, testing::ValuesIn(places()), isa_name);

}  // namespace
}  // namespace ashlar::conformance
