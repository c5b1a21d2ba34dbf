// SPDX-License-Identifier: Apache-2.0
// The ops of training on tensors of bf16, where a device takes them, against the reference device in fp32: both begin
// with the same numbers, and what is stored is rounded.

#include "base/error.h"
#include "device/train_ops.h"
#include "staged_train_ops.h"
#include "support.h"

namespace ashlar::conformance {
namespace {

// Relative to the size of a row's values: one rounding, of values a few times that size, and those of factors that are
// made in between.
constexpr double kOnce = 1.6e-2;
constexpr double kSeveral = 4e-2;
// Of gradients whose terms nearly cancel: twelve seeds gave up to 0.067 for the worst of a row's values and, by the
// same roundings in double precision, 0.012 for all of a row together.
constexpr double kCancelling = 8e-2;
constexpr double kCancellingRow = 2.5e-2;

/// The largest distance between rows, relative to the norm of the row that is wanted.
double worst_row_distance(const Matrix& got, const Matrix& want) {
  double worst = 0;
  for (int32_t r = 0; r < want.rows(); ++r) {
    double squares = 0;
    for (int32_t c = 0; c < want.cols(); ++c) {
      const double error = static_cast<double>(got.row(r)[c]) - want.row(r)[c];
      squares += error * error;
    }
    const double distance = std::sqrt(squares) / std::max(norm(want.row(r), want.cols()), 1e-30);
    if (std::isnan(distance)) return distance;  // more than any bound
    worst = std::max(worst, distance);
  }
  return worst;
}

/// A matrix in bf16, whose rows begin at multiples of 16 bytes or not.
class Narrow {
 public:
  Narrow(const Matrix& from, bool aligned)
      : rows_(from.rows()), cols_(from.cols()), stride_(aligned ? (cols_ + 15) / 8 * 8 : cols_ + 3) {
    storage_.resize(static_cast<size_t>(rows_) * static_cast<size_t>(stride_) + 8, to_bf16(kGuard));
    for (int32_t r = 0; r < rows_; ++r) {
      for (int32_t c = 0; c < cols_; ++c) at(r, c) = to_bf16(from.row(r)[c]);
    }
  }
  Tensor view() { return {storage_.data(), rows_, cols_, stride_, DType::kBF16}; }
  Matrix wide() {
    Matrix out(rows_, cols_);
    for (int32_t r = 0; r < rows_; ++r) {
      for (int32_t c = 0; c < cols_; ++c) out.row(r)[c] = to_float(at(r, c));
    }
    return out;
  }
  bool guards_intact() {
    for (int32_t r = 0; r < rows_; ++r) {
      for (int64_t c = cols_; c < stride_; ++c) {
        if (to_float(at(r, c)) != to_float(to_bf16(kGuard))) return false;
      }
    }
    return true;
  }

 private:
  static constexpr float kGuard = -12352;
  BFloat16& at(int64_t r, int64_t c) { return storage_[static_cast<size_t>(r * stride_ + c)]; }
  int32_t rows_, cols_;
  int64_t stride_;
  std::vector<BFloat16> storage_;
};

class TrainOpsInBf16 : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    try {
      ops_ = std::make_unique<StagedTrainOps>(make_train_ops("cuda", {}));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    ASSERT_TRUE(ops_->takes(DType::kBF16));
  }
  /// Of numbers that bf16 has.
  Matrix normal(int32_t rows, int32_t cols, float deviation = 1) {
    Matrix m(rows, cols);
    m.fill_normal(random_, deviation);
    m.round_to_bf16();
    return m;
  }
  Narrow narrow(const Matrix& from) const { return {from, GetParam()}; }
  static void check(Narrow& got, const Matrix& want, double bound, const char* what) {
    EXPECT_LT(worst_row_error(got.wide(), want), bound) << what;
    EXPECT_TRUE(got.guards_intact()) << what;
  }

  std::unique_ptr<TrainOps> ops_;
  std::unique_ptr<TrainOps> ref_ = make_train_ops("ref", {});
  std::mt19937 random_{20263};
};

TEST_P(TrainOpsInBf16, Products) {
  Matrix x = normal(70, 96), weight = normal(40, 96), d_out = normal(70, 40);
  Narrow x16 = narrow(x), weight16 = narrow(weight), d_out16 = narrow(d_out);
  Matrix out(70, 40), d_x(70, 96), d_weight = normal(40, 96);
  ref_->linear(x.view(), weight.view(), Store::kOverwrite, out.view());
  Narrow out16 = narrow(Matrix(70, 40));
  ops_->linear(x16.view(), weight16.view(), Store::kOverwrite, out16.view());
  check(out16, out, kOnce, "linear");
  // Either factor in fp32 is rounded, here without a change.
  Matrix wide(70, 40);
  ops_->linear(x.view(), weight16.view(), Store::kOverwrite, wide.view());
  EXPECT_LT(worst_row_error(wide, out), 1e-5);
  ref_->linear_input_gradient(d_out.view(), weight.view(), Store::kOverwrite, d_x.view());
  Narrow d_x16 = narrow(Matrix(70, 96));
  ops_->linear_input_gradient(d_out16.view(), weight16.view(), Store::kOverwrite, d_x16.view());
  check(d_x16, d_x, kOnce, "linear_input_gradient");
  Matrix added = d_weight;
  ref_->linear_weight_gradient(d_out.view(), x.view(), d_weight.view());
  ops_->linear_weight_gradient(d_out16.view(), x16.view(), added.view());
  EXPECT_LT(worst_row_error(added, d_weight), 1e-4);
  EXPECT_TRUE(added.guards_intact());
}

// Several matrices of one shape: rows times rows, rows times columns, columns times columns.
TEST_P(TrainOpsInBf16, ManyProducts) {
  constexpr int32_t kCount = 3;
  const auto compare = [&](ProductKind kind, const Matrix& a, const Matrix& b, int32_t rows, int32_t cols) {
    SCOPED_TRACE(static_cast<int>(kind));
    Matrix wide_a = a, wide_b = b, want(kCount * rows, cols), got(kCount * rows, cols);
    Narrow a16 = narrow(a), b16 = narrow(b);
    ref_->products(kind, kCount, wide_a.view(), wide_b.view(), want.view());
    ops_->products(kind, kCount, a16.view(), b16.view(), got.view());
    EXPECT_LT(worst_row_error(got, want), 1e-5);
    EXPECT_TRUE(got.guards_intact());
  };
  const Matrix x = normal(kCount * 33, 24), y = normal(kCount * 18, 24), z = normal(kCount * 33, 40),
               square = normal(kCount * 24, 18);
  compare(ProductKind::kOuter, x, y, 33, 18);
  compare(ProductKind::kPlain, x, square, 33, 18);
  compare(ProductKind::kInner, x, z, 24, 40);
}

TEST_P(TrainOpsInBf16, RmsNorm) {
  for (const int32_t cols : {64, 576, 900, 2100, 5000}) {
    SCOPED_TRACE(cols);
    Matrix x = normal(37, cols), weight = normal(1, cols), d_out = normal(37, cols);
    Narrow x16 = narrow(x), out16 = narrow(x), d_x16 = narrow(d_out);
    Matrix out(37, cols), d_x(37, cols), d_weight = normal(1, cols), d_weight16 = d_weight;
    ref_->rms_norm(x.view(), weight.row(0), 1e-3F, out.view());
    ops_->rms_norm(x16.view(), weight.row(0), 1e-3F, out16.view());
    check(out16, out, kOnce * 2, "rms_norm");
    ref_->rms_norm_gradient(d_out.view(), x.view(), weight.row(0), 1e-3F, Store::kOverwrite, d_x.view(),
                            d_weight.row(0));
    ops_->rms_norm_gradient(d_x16.view(), x16.view(), weight.row(0), 1e-3F, Store::kOverwrite, d_x16.view(),
                            d_weight16.row(0));
    check(d_x16, d_x, kOnce * 2, "rms_norm_gradient in place");
    EXPECT_LT(worst_row_error(d_weight16, d_weight), 1e-4);
  }
}

TEST_P(TrainOpsInBf16, RowsAndGates) {
  Matrix gate = normal(37, 88, 3), up = normal(37, 88), d_out = normal(37, 88);
  Narrow gate16 = narrow(gate), up16 = narrow(up), out16 = narrow(up), d_gate16 = narrow(up), d_up16 = narrow(d_out);
  Matrix out(37, 88), d_gate(37, 88), d_up(37, 88);
  ref_->silu_mul(gate.view(), up.view(), out.view());
  ops_->silu_mul(gate16.view(), up16.view(), out16.view());
  check(out16, out, kOnce * 2, "silu_mul");
  ref_->silu_mul_gradient(d_out.view(), gate.view(), up.view(), d_gate.view(), d_up.view());
  ops_->silu_mul_gradient(d_up16.view(), gate16.view(), up16.view(), d_gate16.view(), d_up16.view());
  check(d_gate16, d_gate, kOnce * 2, "silu_mul_gradient of the gate");
  check(d_up16, d_up, kOnce * 2, "silu_mul_gradient of the other, in place");

  d_up16 = narrow(d_out);
  ref_->sigmoid_mul(gate.view(), up.view(), out.view());
  ops_->sigmoid_mul(gate16.view(), up16.view(), out16.view());
  check(out16, out, kOnce * 2, "sigmoid_mul");
  ref_->sigmoid_mul_gradient(d_out.view(), gate.view(), up.view(), d_gate.view(), d_up.view());
  ops_->sigmoid_mul_gradient(d_up16.view(), gate16.view(), up16.view(), d_gate16.view(), d_up16.view());
  check(d_gate16, d_gate, kOnce * 2, "sigmoid_mul_gradient of the gate");
  check(d_up16, d_up, kOnce * 2, "sigmoid_mul_gradient of the other, in place");

  Matrix cos = normal(50, 4), sin = normal(50, 4);
  std::vector<float> tables;
  for (Matrix* table : {&cos, &sin}) {
    for (int32_t r = 0; r < 50; ++r) tables.insert(tables.end(), table->row(r), table->row(r) + 4);
  }
  std::vector<int32_t> ids(37);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(36 - i);
  Narrow turned16 = narrow(up);
  Matrix turned = up;
  ref_->rope(turned.view(), 8, {tables.data(), tables.data() + 200, ids.data()});
  ops_->rope(turned16.view(), 8, {tables.data(), tables.data() + 200, ids.data()});
  check(turned16, turned, kOnce, "rope");

  const std::vector<float> scales(37, -2);
  Narrow gathered16 = narrow(out), scattered16 = narrow(out), copied16 = narrow(out);
  ref_->gather(up.view(), ids.data(), 0.5F, out.view());
  ops_->gather(up16.view(), ids.data(), 0.5F, gathered16.view());
  check(gathered16, out, 1e-9, "gather");
  ref_->scatter(up.view(), ids.data(), scales.data(), Store::kOverwrite, out.view());
  ops_->scatter(up16.view(), ids.data(), scales.data(), Store::kOverwrite, scattered16.view());
  check(scattered16, out, 1e-9, "scatter");
  ops_->copy(up.view(), copied16.view());
  check(copied16, up, 1e-9, "copy");
}

// d_out of a residual stream is fp32, of a product bf16.
TEST_P(TrainOpsInBf16, BlockConv) {
  const Matrix x = normal(70, 64), dynamic = normal(70, 8);
  Matrix base = normal(1, 128), d_out(70, 64, 4), d_base(1, 128), want_base(1, 128);
  d_out.fill_normal(random_);
  d_out.round_to_bf16();
  Narrow x16 = narrow(x), dynamic16 = narrow(dynamic), out16 = narrow(x), d_x16 = narrow(x), d_out16 = narrow(d_out),
         d_dynamic16 = narrow(dynamic);
  Matrix x32 = x, dynamic32 = dynamic, out = x, d_x = x, d_dynamic = dynamic;
  const GroupedConv conv = {2, 16, base.row(0)};
  const BlockConvolution wide = {x32.view(), dynamic32.view(), conv, 7};
  const BlockConvolution rows = {x16.view(), dynamic16.view(), conv, 7};
  ref_->block_conv(wide, Store::kOverwrite, out.view());
  ops_->block_conv(rows, Store::kOverwrite, out16.view());
  check(out16, out, kOnce * 4, "block_conv");
  for (const bool is_wide : {false, true}) {
    for (Matrix* sums : {&d_base, &want_base}) std::fill_n(sums->row(0), 128, 1.0F);
    ref_->block_conv_gradient(d_out.view(), wide, d_x.view(), d_dynamic.view(), want_base.row(0));
    ops_->block_conv_gradient(is_wide ? d_out.view() : d_out16.view(), rows, d_x16.view(), d_dynamic16.view(),
                              d_base.row(0));
    check(d_x16, d_x, kOnce * 4, "block_conv_gradient of x");
    check(d_dynamic16, d_dynamic, kOnce * 4, "block_conv_gradient of what is a row's own");
    EXPECT_LT(worst_row_error(d_base, want_base), 1e-4);
  }
}

struct RoundedAttentionCase {
  int32_t heads, kv_heads, head_dim, block, window;
  std::vector<BlockContext> blocks;
  int32_t context_rows;
  bool causal = false;
};

// Blocks of a document of 131 tokens and of the one after it.
std::vector<BlockContext> contexts_of(std::vector<int32_t> first, std::vector<int32_t> second) {
  std::vector<BlockContext> out;
  for (const int32_t n : first) out.push_back({0, n});
  for (const int32_t n : second) out.push_back({131, n});
  return out;
}

// The last rows of context belong to no block; documents share tiles of keys; blocks are no multiples of anything.
TEST_P(TrainOpsInBf16, Attention) {
  const RoundedAttentionCase cases[] = {
      {4, 2, 8, 3, 0, {{0, 0}, {0, 1}, {0, 7}, {0, 150}, {150, 3}, {153, 40}}, 200},
      {9, 3, 64, 16, 0, {{0, 20}, {0, 100}, {0, 131}, {131, 5}, {131, 64}}, 230},
      {6, 2, 64, 5, 11, {{0, 0}, {0, 30}, {0, 290}, {290, 9}}, 299},
      {8, 1, 32, 16, 0, {{0, 70}, {0, 71}, {71, 3}}, 74},
      {2, 2, 128, 70, 70, {{0, 140}, {0, 141}}, 141},
      {2, 1, 128, 70, 0, {{0, 1}, {0, 9}, {9, 64}}, 73, true},
      {8, 2, 128, 16, 0, {{0, 64}, {0, 200}, {0, 201}, {201, 128}}, 330},  // all rows see many keys together
      {6, 2, 64, 16, 20, {{0, 3}, {0, 100}, {100, 40}}, 141, true},
      // More queries of few keys than a GPU goes through at once: it takes them in parts.
      {8, 1, 64, 16, 0, contexts_of({3, 9, 40, 64, 70, 90, 120, 130, 131}, {1, 20, 63, 64}), 200},
      {8, 1, 128, 16, 33, contexts_of({3, 9, 40, 64, 70, 90, 120, 130, 131}, {1, 20, 63, 64}), 200},
      {8, 1, 64, 16, 0, std::vector<BlockContext>(16, BlockContext{0, 0}), 0},  // and where there is nothing before
      {2, 1, 256, 4, 0, {{0, 40}}, 41},
      {4, 2, 256, 5, 24, {{0, 20}, {0, 40}}, 41, true},
  };
  for (const RoundedAttentionCase& c : cases) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim) + ", block " + std::to_string(c.block));
    const BlockAttention layout = {c.heads,        c.kv_heads, c.head_dim, c.block,
                                   c.context_rows, c.window,   c.causal,   c.blocks};
    const int32_t rows = layout.block_rows(), keys = rows + c.context_rows;
    Matrix q = normal(rows, layout.width()), k = normal(keys, layout.kv_width()), v = normal(keys, layout.kv_width());
    Matrix d_out = normal(rows, layout.width());
    Matrix out(rows, layout.width()), log_sums(rows, c.heads), log_sums16(rows, c.heads);
    Narrow q16 = narrow(q), k16 = narrow(k), v16 = narrow(v), d_out16 = narrow(d_out), out16 = narrow(q);
    ref_->attention(q.view(), k.view(), v.view(), layout, out.view(), log_sums.view());
    ops_->attention(q16.view(), k16.view(), v16.view(), layout, out16.view(), log_sums16.view());
    check(out16, out, kSeveral, "attention");
    EXPECT_LT(worst_row_error(log_sums16, log_sums), 1e-4);
    Matrix d_q(rows, layout.width()), d_k(keys, layout.kv_width()), d_v(keys, layout.kv_width());
    Narrow d_q16 = narrow(q), d_k16 = narrow(k), d_v16 = narrow(v);
    ref_->attention_gradient(d_out.view(), q.view(), k.view(), v.view(), layout, out.view(), log_sums.view(),
                             d_q.view(), d_k.view(), d_v.view());
    ops_->attention_gradient(d_out16.view(), q16.view(), k16.view(), v16.view(), layout, out16.view(),
                             log_sums16.view(), d_q16.view(), d_k16.view(), d_v16.view());
    check(d_q16, d_q, kCancelling, "d_q");
    EXPECT_LT(worst_row_distance(d_q16.wide(), d_q), kCancellingRow) << "d_q";
    check(d_k16, d_k, kSeveral, "d_k");
    check(d_v16, d_v, kSeveral, "d_v");
  }
}

TEST_P(TrainOpsInBf16, CrossEntropy) {
  for (const int32_t vocab : {5, 333, 5003}) {
    SCOPED_TRACE(vocab);
    Matrix hidden = normal(70, 24), head = normal(vocab, 24), d_hidden(70, 24), got(70, 24);
    Narrow hidden16 = narrow(hidden), head16 = narrow(head);
    std::vector<int32_t> labels(70);
    for (int32_t& label : labels) label = static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab));
    std::vector<TokenLoss> want(70), losses(70);
    ref_->cross_entropy(hidden.view(), head.view(), labels.data(), want.data(), d_hidden.view(), {});
    ops_->cross_entropy(hidden16.view(), head16.view(), labels.data(), losses.data(), got.view(), {});
    EXPECT_LT(worst_row_error(got, d_hidden), kOnce);
    EXPECT_TRUE(got.guards_intact());
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_NEAR(losses[i].loss, want[i].loss, 1e-4 * (1 + want[i].loss));
      EXPECT_NEAR(losses[i].probability, want[i].probability, 1e-4);
      EXPECT_EQ(losses[i].best, want[i].best);
    }
    Matrix x = normal(70, 16), d_columns(vocab, 16), got_columns(vocab, 16);
    Narrow x16 = narrow(x);
    ref_->head_gradient({hidden.view(), head.view(), labels.data()}, x.view(), d_columns.view());
    ops_->head_gradient({hidden16.view(), head16.view(), labels.data()}, x16.view(), got_columns.view());
    EXPECT_LT(worst_row_distance(got_columns, d_columns), kSeveral);
    EXPECT_TRUE(got_columns.guards_intact());
  }
}

TEST_P(TrainOpsInBf16, DistributionLoss) {
  for (const DistributionLoss loss :
       {DistributionLoss::kKl, DistributionLoss::kTv, DistributionLoss::kOverlap, DistributionLoss::kLk}) {
    for (const int32_t vocab : {5, 333, 5003}) {
      SCOPED_TRACE("loss " + std::to_string(static_cast<int>(loss)) + " of " + std::to_string(vocab) + " logits");
      Matrix hidden = normal(70, 24, 0.5F), target = normal(70, 24, 0.5F), head = normal(vocab, 24);
      Matrix d_hidden(70, 24), got(70, 24);
      Narrow hidden16 = narrow(hidden), target16 = narrow(target), head16 = narrow(head);
      std::vector<TokenLoss> want(70), losses(70);
      ref_->distribution_loss(hidden.view(), target.view(), head.view(), loss, want.data(), d_hidden.view(), {});
      ops_->distribution_loss(hidden16.view(), target16.view(), head16.view(), loss, losses.data(), got.view(), {});
      EXPECT_LT(worst_row_error(got, d_hidden), kSeveral);
      EXPECT_TRUE(got.guards_intact());
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i].loss, want[i].loss, 1e-4 * (1 + want[i].loss));
        EXPECT_NEAR(losses[i].probability, want[i].probability, 1e-4);
        EXPECT_EQ(losses[i].best, want[i].best);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, TrainOpsInBf16, testing::Bool(),
                         [](const auto& info) { return info.param ? "Aligned" : "Anywhere"; });

}  // namespace
}  // namespace ashlar::conformance
