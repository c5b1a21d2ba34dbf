// SPDX-License-Identifier: Apache-2.0
// linear, pack and embed against the reference.

#include "support.h"

namespace ashlar::conformance {
namespace {

struct Shape {
  int32_t n;
  int32_t k;
};
// Off and on the multiples of the packed layout (64 columns, 32 deep), down to one.
constexpr Shape kLinearShapes[] = {{1, 1},    {3, 2},    {16, 32},  {64, 64},   {63, 31},  {65, 33},
                                   {100, 77}, {128, 96}, {130, 50}, {192, 256}, {257, 129}};
constexpr int32_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64, 100};

/// Largest error over |x[r]| |w[n]|. fp32 sums of K terms stay near 1e-7 sqrt(K) of that; products of bf16 are exact in
/// fp32.
double worst_product_error(const Matrix& got, const Matrix& want, const Matrix& x,
                           const std::vector<double>& row_norms) {
  double worst = 0;
  for (int32_t r = 0; r < got.rows(); ++r) {
    const double x_norm = norm(x.row(r), x.cols());
    for (int32_t c = 0; c < got.cols(); ++c) {
      const double scale = x_norm * row_norms[static_cast<size_t>(c)] + 1;  // + 1: bias and previous content
      const double error = std::abs(static_cast<double>(got.row(r)[c]) - want.row(r)[c]) / scale;
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

class Linear : public OnIsa {};

TEST_P(Linear, MatchesReference) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  int cases = 0;
  for (Scheme scheme : {Scheme::kBF16, Scheme::kF32, Scheme::kF16}) {
    for (const Shape shape : kLinearShapes) {
      const Checkpoint weight(scheme, shape.n, shape.k, random_);
      std::vector<float> bias(static_cast<size_t>(shape.n));
      for (float& b : bias) b = std::normal_distribution<float>()(random_);
      const bool with_bias = cases % 2 == 0;
      const std::span<const float> given = with_bias ? std::span<const float>(bias) : std::span<const float>();
      const auto packed = cpu->pack(weight.source(given));
      const auto plain = ref->pack(weight.source(given));
      // Norms of the rows, read through embed of the reference.
      std::vector<double> norms;
      for (int32_t n = 0; n < shape.n; ++n) {
        Matrix row(1, shape.k);
        ref->embed(*plain, &n, 1, row.view());
        norms.push_back(norm(row.row(0), shape.k));
      }
      for (int32_t rows : kRowCounts) {
        Matrix x(rows, shape.k, cases % 9);
        x.fill_normal(random_);
        Matrix rounded = x;
        if (rounds_activations() && scheme == Scheme::kBF16) rounded.round_to_bf16();
        Matrix got(rows, shape.n, 3);
        got.fill_normal(random_);
        Matrix want = got;
        const Store store = rows % 2 == 0 ? Store::kAdd : Store::kOverwrite;
        cpu->linear(*packed, x.view(), store, got.view());
        ref->linear(*plain, rounded.view(), store, want.view());
        ASSERT_LT(worst_product_error(got, want, x, norms), store == Store::kAdd ? bound(2e-6, 1.0 / 64) : 2e-6)
            << name_of(scheme) << " n " << shape.n << " k " << shape.k << " rows " << rows;
        ASSERT_TRUE(got.guards_intact()) << "n " << shape.n << " rows " << rows;
        ++cases;
      }
    }
  }
  RecordProperty("cases", cases);
}

TEST_P(Linear, GatedMatchesReference) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  for (Scheme scheme : {Scheme::kBF16, Scheme::kF32}) {
    for (const Shape shape : kLinearShapes) {
      const int32_t width = shape.n;
      const Checkpoint weight(scheme, 2 * width, shape.k, random_);
      std::vector<float> bias(static_cast<size_t>(width % 2 == 0 ? 2 * width : 0));
      for (float& b : bias) b = std::normal_distribution<float>()(random_);
      const auto packed = cpu->pack(weight.source(bias), {.gated = true});
      const auto plain = ref->pack(weight.source(bias), {.gated = true});
      EXPECT_EQ(packed->n(), 2 * width);
      const Checkpoint back(scheme, shape.k, width, random_);
      const std::vector<float> down_bias(static_cast<size_t>(width % 3 == 0 ? shape.k : 0), 0.75F);
      const auto packed_down = cpu->pack(back.source(down_bias));
      const auto plain_down = ref->pack(back.source(down_bias));
      for (int32_t rows : {1, 5, 16, 17, 40}) {
        Matrix x(rows, shape.k);
        x.fill_normal(random_, 1.0F / std::sqrt(static_cast<float>(shape.k)));
        if (rounds_activations()) x.round_to_bf16();
        Matrix got(rows, shape.k, 3);
        got.fill_normal(random_, on_gpu() ? 0.0F : 1.0F);  // there a sum with other numbers is rounded
        const Matrix before = got;
        Matrix want = got;
        cpu->gated_mlp(*packed, *packed_down, x.view(), got.view());
        ref->gated_mlp(*plain, *plain_down, x.view(), want.view());
        // Activations are rounded to 2^-9 of themselves; in a sum of few terms that may cancel this is much of what is
        // left.
        const double of_rounding = width < 16 ? 0.1 : 0.02;
        const double most = on_gpu() || (rounds_activations() && scheme == Scheme::kBF16) ? of_rounding : 5e-5;
        ASSERT_LT(worst_added_error(got, want, before), most) << width << " " << shape.k << " " << rows;
        ASSERT_TRUE(got.guards_intact());
      }
    }
  }
}

// A norm on the way in is rms_norm followed by the product, bit for bit; a gated MLP may add to the rows it read.
TEST_P(Linear, NormOnTheWayIn) {
  for (int32_t threads : {1, 2, 3}) {
    const auto cpu = make(threads);
    for (Scheme scheme : {Scheme::kBF16, Scheme::kF32}) {
      for (const Shape shape : {Shape{70, 64}, {200, 33}, {64, 600}}) {
        const Checkpoint weight(scheme, shape.n, shape.k, random_);
        const Checkpoint gated(scheme, 2 * shape.n, shape.k, random_);
        const Checkpoint back(scheme, shape.k, shape.n, random_);
        const auto packed = cpu->pack(weight.source());
        const auto gate_up = cpu->pack(gated.source(), {.gated = true});
        const auto packed_down = cpu->pack(back.source());
        Matrix norm_weight(1, shape.k);
        norm_weight.fill_normal(random_);
        for (int32_t rows : {1, 2, 7, 16, 17, 40, 100}) {
          Matrix x(rows, shape.k, 5);
          x.fill_normal(random_, 3);
          const Input in = {x.view(), norm_weight.row(0), 1e-6F};
          Matrix normed(rows, shape.k);
          cpu->rms_norm(x.view(), norm_weight.row(0), 1e-6F, normed.view());
          Matrix got(rows, shape.n);
          Matrix want(rows, shape.n);
          cpu->linear(*packed, in, Store::kOverwrite, got.view());
          cpu->linear(*packed, normed.view(), Store::kOverwrite, want.view());
          Matrix added = x;
          cpu->gated_mlp(*gate_up, *packed_down, normed.view(), added.view());
          cpu->gated_mlp(*gate_up, *packed_down, in, x.view());
          for (int32_t r = 0; r < rows; ++r) {
            ASSERT_TRUE(same_bits(got.row(r), want.row(r), shape.n)) << shape.k << ", row " << r << " of " << rows;
            ASSERT_TRUE(same_bits(x.row(r), added.row(r), shape.k)) << shape.n << ", row " << r << " of " << rows;
          }
          ASSERT_TRUE(x.guards_intact());
        }
      }
    }
  }
}

// Against the logits of linear(), with ties between columns of all distances and values that are not numbers.
TEST_P(Linear, ArgmaxIsThatOfTheProduct) {
  for (int32_t threads : {1, 3}) {
    const auto cpu = make(threads);
    for (const Shape shape : {Shape{1, 4}, {63, 8}, {700, 4}, {2000, 40}}) {
      Checkpoint weight(Scheme::kBF16, shape.n, shape.k, random_);
      const size_t row_bytes = static_cast<size_t>(shape.k) * 2;
      for (int32_t i = 1; i < shape.n; ++i) {  // most rows repeat another one
        if (i % 5 == 0) continue;
        std::memcpy(&weight.bytes[i * row_bytes], &weight.bytes[random_() % i * row_bytes], row_bytes);
      }
      std::vector<float> bias(static_cast<size_t>(shape.n));
      if (shape.n > 100) bias[3] = bias[static_cast<size_t>(shape.n) - 1] = NAN;
      const auto packed = cpu->pack(weight.source(bias));
      for (int32_t rows : {1, 3, 16, 33, 100}) {
        Matrix x(rows, shape.k);
        x.fill_normal(random_);
        if (rows == 3) std::fill_n(x.row(1), shape.k, NAN);
        Matrix logits(rows, shape.n);
        cpu->linear(*packed, x.view(), Store::kOverwrite, logits.view());
        std::vector<int32_t> ids(static_cast<size_t>(rows), -7);
        cpu->linear_argmax(*packed, x.view(), ids.data());
        for (int32_t r = 0; r < rows; ++r) {
          int32_t want = -1;
          float highest = -INFINITY;
          for (int32_t c = 0; c < shape.n; ++c) {
            if (logits.row(r)[c] > highest) highest = logits.row(r)[want = c];
          }
          ASSERT_EQ(ids[static_cast<size_t>(r)], want) << shape.n << " " << rows << " " << r;
        }
        std::vector<RowStatistics> statistics(static_cast<size_t>(rows));
        const int32_t without = rows == 16 ? -1 : shape.n / 2;
        cpu->linear_statistics(*packed, x.view(), without, statistics.data());
        for (int32_t r = 0; r < rows; ++r) {
          if (without >= 0) logits.row(r)[without] = -INFINITY;
          const RowStatistics want = row_statistics(logits.row(r), shape.n);
          ASSERT_EQ(std::memcmp(&statistics[static_cast<size_t>(r)], &want, sizeof want), 0)
              << shape.n << " " << rows << " " << r << ": " << statistics[static_cast<size_t>(r)].best << " for "
              << want.best;
        }
      }
    }
  }
}

// Rounding the activations to bf16 costs at most 2^-9 of each, so 2^-8 covers it with the sums.
TEST_P(Linear, StaysNearUnroundedReference) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  const Checkpoint weight(Scheme::kBF16, 200, 512, random_);
  Matrix x(16, 512);
  x.fill_normal(random_);
  Matrix got(16, 200);
  Matrix want(16, 200);
  cpu->linear(*cpu->pack(weight.source()), x.view(), Store::kOverwrite, got.view());
  ref->linear(*ref->pack(weight.source()), x.view(), Store::kOverwrite, want.view());
  EXPECT_LT(worst_row_error(got, want), rounds_activations() ? 1.0 / 64 : 1e-5);
}

// What another row holds never reaches a row: k is padded inside the weight, and zero times infinity is not zero.
TEST_P(Linear, NothingLeaksFromBeyondARow) {
  const auto cpu = make();
  const Checkpoint weight(Scheme::kBF16, 70, 45, random_);
  const auto packed = cpu->pack(weight.source());
  Matrix x(3, 45, 1);
  x.fill_normal(random_);
  x.row(0)[45] = NAN;  // in the gap between rows
  for (int32_t c = 0; c < 45; ++c) x.row(1)[c] = INFINITY;
  Matrix out(3, 70);
  cpu->linear(*packed, x.view(), Store::kOverwrite, out.view());
  for (int32_t c = 0; c < 70; ++c) {
    EXPECT_TRUE(std::isfinite(out.row(0)[c]));
    EXPECT_TRUE(std::isfinite(out.row(2)[c]));
  }
}

TEST_P(Linear, PartsStackLikeOneMatrix) {
  const auto cpu = make();
  for (Scheme scheme : {Scheme::kBF16, Scheme::kF32, Scheme::kF16}) {
    const Checkpoint weight(scheme, 150, 40, random_);
    const WeightSource parts{{weight.part(0, 50), weight.part(50, 17), weight.part(67, 83)}, {}};
    Matrix x(5, 40);
    x.fill_normal(random_);
    Matrix a(5, 150);
    Matrix b(5, 150);
    cpu->linear(*cpu->pack(weight.source()), x.view(), Store::kOverwrite, a.view());
    cpu->linear(*cpu->pack(parts), x.view(), Store::kOverwrite, b.view());
    for (int32_t r = 0; r < 5; ++r) EXPECT_TRUE(same_bits(a.row(r), b.row(r), 150));
  }
}

// The values of each part are kept exactly, whatever the others are stored in.
TEST_P(Linear, PartsMayDifferInScheme) {
  const auto cpu = make();
  const Checkpoint first(Scheme::kBF16, 50, 40, random_);
  const Checkpoint second(Scheme::kF32, 46, 40, random_);
  const Checkpoint third(Scheme::kF16, 54, 40, random_);
  std::vector<float> values;
  for (const Checkpoint* part : {&first, &second, &third}) {
    for (size_t at = 0; at < part->bytes.size(); at += bytes_of(part->scheme)) {
      uint16_t half;
      float value;
      std::memcpy(&half, &part->bytes[at], sizeof(half));
      if (part == &second) std::memcpy(&value, &part->bytes[at], sizeof(value));
      if (part != &second) value = part == &first ? to_float(BFloat16{half}) : to_float(Float16{half});
      values.push_back(value);
    }
  }
  const WeightSource parts{{first.part(0, 50), second.part(0, 46), third.part(0, 54)}, {}};
  const WeightSource whole{{{"w", Scheme::kF32, values.data(), 150, 40}}, {}};
  const Checkpoint back(Scheme::kF32, 40, 75, random_);
  Matrix x(5, 40);
  x.fill_normal(random_);
  for (const bool gated : {false, true}) {
    const auto packed = cpu->pack(parts, {.gated = gated});
    EXPECT_EQ(packed->format(), "f32");
    Matrix a(5, gated ? 40 : 150);
    a.fill_normal(random_);
    Matrix b = a;
    if (gated) {
      cpu->gated_mlp(*packed, *cpu->pack(back.source()), x.view(), a.view());
      cpu->gated_mlp(*cpu->pack(whole, {.gated = true}), *cpu->pack(back.source()), x.view(), b.view());
    } else {
      cpu->linear(*packed, x.view(), Store::kOverwrite, a.view());
      cpu->linear(*cpu->pack(whole), x.view(), Store::kOverwrite, b.view());
    }
    for (int32_t r = 0; r < 5; ++r) EXPECT_TRUE(same_bits(a.row(r), b.row(r), a.cols()));
  }
}

TEST_P(Linear, EmbedReadsRowsExactly) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  for (Scheme scheme : {Scheme::kBF16, Scheme::kF32, Scheme::kF16}) {
    for (int32_t k : {1, 31, 64, 77}) {
      const Checkpoint table(scheme, 131, k, random_);
      const std::vector<int32_t> ids{0, 130, 63, 64, 1, 1, 127, 128, 77};
      Matrix got(static_cast<int32_t>(ids.size()), k);
      Matrix want = got;
      cpu->embed(*cpu->pack(table.source()), ids.data(), 1.5F, got.view());
      ref->embed(*ref->pack(table.source()), ids.data(), 1.5F, want.view());
      if (on_gpu()) want.round_to_bf16();
      for (int32_t r = 0; r < got.rows(); ++r) EXPECT_TRUE(same_bits(got.row(r), want.row(r), k));
      EXPECT_TRUE(got.guards_intact());
    }
  }
}

ASHLAR_FOR_EACH_ISA(Linear);

}  // namespace
}  // namespace ashlar::conformance
