// SPDX-License-Identifier: Apache-2.0
// The ops of training: every instruction set of the cpu device, and the cuda device, against the reference device.

#include "train_support.h"

namespace ashlar::conformance {
namespace {

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
          bound(kTrainTolerance, 5e-3));
      compare(
          normal(size.m, size.k),
          [&](TrainOps& ops, Matrix& d_x) {
            ops.linear_input_gradient(d_out.view(), weight.view(), store, d_x.view());
          },
          "linear_input_gradient", bound(kTrainTolerance, 5e-3));
    }
    compare(
        normal(size.n, size.k),
        [&](TrainOps& ops, Matrix& d_weight) { ops.linear_weight_gradient(d_out.view(), x.view(), d_weight.view()); },
        "linear_weight_gradient", bound(kTrainTolerance, 5e-3));
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

// Of several matrices of one shape, which a device may take together.
TEST_P(TrainOpsOnIsa, ManyMatrices) {
  for (const int32_t n : {1, 5}) {
    SCOPED_TRACE(n);
    Matrix x = normal(n * 33, 20), y = normal(n * 18, 20), square = normal(n * 20, 18), z = normal(n * 33, 18);
    const auto compare_product = [&](ProductKind kind, Matrix& a, Matrix& b, int32_t rows, int32_t cols) {
      compare(
          normal(n * rows, cols),
          [&](TrainOps& ops, Matrix& out) { ops.products(kind, n, a.view(), b.view(), out.view()); }, "products",
          bound(kTrainTolerance, 5e-3));
    };
    compare_product(ProductKind::kOuter, x, y, 33, 18);
    compare_product(ProductKind::kPlain, x, square, 33, 18);
    compare_product(ProductKind::kInner, x, z, 20, 18);
    Matrix arrays = normal(n, 4003, 1, 0);
    std::fill_n(arrays.row(n - 1), 4003, 0.0F);  // whose norm is nothing to divide by
    compare(
        arrays, [&](TrainOps& ops, Matrix& out) { ops.normalise(out.row(0), 4003, n, 1e-7); }, "normalise", 1e-6);
  }
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

TEST_P(TrainOpsOnIsa, Gates) {
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
    compare(
        Matrix(37, cols), [&](TrainOps& ops, Matrix& out) { ops.sigmoid_mul(gate.view(), up.view(), out.view()); },
        "sigmoid_mul");
    compare(
        Matrix(37, cols),
        [&](TrainOps& ops, Matrix& d_gate) {
          ops.sigmoid_mul_gradient(d_out.view(), gate.view(), up.view(), d_gate.view(), other.view());
        },
        "sigmoid_mul_gradient of the gate");
    compare(
        d_out,
        [&](TrainOps& ops, Matrix& d_x) {
          ops.sigmoid_mul_gradient(d_x.view(), gate.view(), up.view(), other.view(), d_x.view());
        },
        "sigmoid_mul_gradient of the other, in place");
  }
}

struct AttentionCase {
  int32_t heads, kv_heads, head_dim, block, window;
  std::vector<BlockContext> blocks;
  int32_t context_rows;
  bool causal = false;
};

TEST_P(TrainOpsOnIsa, Attention) {
  const AttentionCase cases[] = {
      {1, 1, 2, 2, 0, {{0, 0}}, 0},
      {4, 2, 8, 3, 0, {{0, 0}, {0, 1}, {0, 7}, {0, 150}, {150, 3}, {153, 40}}, 200},  // rows after the last block's
      {4, 2, 64, 16, 0, {{0, 20}, {0, 300}}, 300},
      {3, 3, 24, 5, 11, {{0, 4}, {0, 30}, {0, 290}, {290, 9}}, 299},
      {2, 1, 128, 4, 4, {{0, 140}, {0, 141}}, 141},
      // Causal rows see a key besides their own at least: of one key alone gradients are zeros of rounding.
      {4, 2, 40, 37, 0, {{0, 1}, {0, 5}, {0, 33}, {33, 7}}, 40, true},
      {4, 1, 64, 16, 20, {{0, 3}, {0, 100}}, 101, true},
  };
  for (const AttentionCase& c : cases) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    const BlockAttention layout = {c.heads,        c.kv_heads, c.head_dim, c.block,
                                   c.context_rows, c.window,   c.causal,   c.blocks};
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
    EXPECT_LT(worst_row_error(other, log_sums), kTrainTolerance);
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

TEST_P(TrainOpsOnIsa, RowsAndArrays) {
  Matrix table = normal(40, 19);
  const std::vector<int32_t> ids = {3, 39, 0, 7, 12};
  const std::vector<float> scales = {1, -2, 0.5F, 0, 3};
  Matrix rows = normal(5, 19);
  compare(
      Matrix(5, 19), [&](TrainOps& ops, Matrix& out) { ops.gather(table.view(), ids.data(), 1.5F, out.view()); },
      "gather", 1e-7);
  for (const Store store : {Store::kOverwrite, Store::kAdd}) {
    compare(
        normal(40, 19),
        [&](TrainOps& ops, Matrix& out) { ops.scatter(rows.view(), ids.data(), scales.data(), store, out.view()); },
        "scatter", 1e-6);
  }
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
