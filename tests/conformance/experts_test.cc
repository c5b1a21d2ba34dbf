// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: the choice and the grouped products against the reference, and the bits of a row alone and in
// a batch.

#include "support.h"

namespace ashlar::conformance {
namespace {

/// Routes of `rows` rows, owned.
struct Choice {
  Choice(int32_t rows, int32_t top_k) : experts(rows * top_k, -1), weights(rows * top_k), top_k(top_k) {}
  Routes view(int32_t first = 0) { return {top_k, experts.data() + first * top_k, weights.data() + first * top_k}; }
  std::vector<int32_t> experts;
  std::vector<float> weights;
  int32_t top_k;
};

struct RoutingCase {
  int32_t n_experts;
  Routing routing;
  bool bias;
  bool scale = false;
};

const RoutingCase kRoutings[] = {
    {8, {Routing::Score::kSoftmax, 1, 1, 2, true, 1.0F}, false},
    {128, {Routing::Score::kSoftmax, 1, 1, 8, true, 1.0F}, false},
    {128, {Routing::Score::kSoftmax, 1, 1, 8, true, 1.0F}, false, true},
    {16, {Routing::Score::kSoftmax, 1, 1, 1, false, 1.0F}, false},
    {60, {Routing::Score::kSoftmax, 1, 1, 60, false, 0.5F}, true},
    {16, {Routing::Score::kSigmoid, 4, 2, 3, true, 2.5F}, true},
    {256, {Routing::Score::kSigmoid, 8, 4, 8, true, 2.5F}, true, true},
    {256, {Routing::Score::kSigmoid, 8, 1, 32, false, 1.0F}, true},
    {6, {Routing::Score::kSigmoid, 6, 3, 2, true, 1.0F}, false},
};

/// Rows [first, first + n) of a matrix.
Tensor slice(Matrix& m, int32_t first, int32_t n) {
  const Tensor all = m.view();
  return {all.row(first), n, all.cols, all.stride};
}

class Experts : public OnIsa {};

TEST_P(Experts, RouteMatchesReference) {
  const auto ref = make_ref_ops();
  const auto cpu = make(2);
  for (const RoutingCase& item : kRoutings) {
    constexpr int32_t kRows = 70;
    Matrix logits(kRows, item.n_experts);
    logits.fill_normal(random_, 2);
    Matrix bias(1, item.n_experts);
    bias.fill_normal(random_, 0.3F);
    Matrix scale(1, item.n_experts);
    scale.fill_normal(random_, 1);
    // Ties of every kind: pairs of experts, then whole rows; with equal biases, some of them negative.
    for (int32_t e = 0; e + 1 < item.n_experts; e += 3) bias.row(0)[e + 1] = bias.row(0)[e];
    for (int32_t r = 0; r < 40; ++r) {
      for (int32_t e = 0; e + 1 < item.n_experts; e += 3) logits.row(r)[e + 1] = logits.row(r)[e];
    }
    for (int32_t r = 0; r < 8; ++r) std::fill_n(logits.row(r), item.n_experts, static_cast<float>(r) - 4);
    Choice got(kRows, item.routing.top_k);
    Choice want(kRows, item.routing.top_k);
    const ExpertFactors given = {item.bias ? bias.row(0) : nullptr, item.scale ? scale.row(0) : nullptr};
    cpu->route(logits.view(), given, item.routing, got.view());
    ref->route(logits.view(), given, item.routing, want.view());
    EXPECT_EQ(got.experts, want.experts) << item.n_experts;
    EXPECT_TRUE(same_bits(got.weights.data(), want.weights.data(), static_cast<int32_t>(got.weights.size())));
    EXPECT_TRUE(logits.guards_intact());
  }
}

// Whatever the scores are, the choice is of experts that exist, each once.
TEST_P(Experts, RouteSurvivesAnyScore) {
  const auto cpu = make(1);
  const auto ref = make_ref_ops();
  for (const RoutingCase& item : kRoutings) {
    for (const float value : {NAN, INFINITY, -INFINITY, 1e38F, -1e38F}) {
      Matrix logits(2, item.n_experts);
      logits.fill_normal(random_);
      logits.row(0)[item.n_experts / 2] = value;
      std::fill_n(logits.row(1), item.n_experts, value);
      for (Ops* ops : {cpu.get(), ref.get()}) {
        Choice choice(2, item.routing.top_k);
        ops->route(logits.view(), nullptr, item.routing, choice.view());
        for (int32_t r = 0; r < 2; ++r) {
          std::vector<int32_t> experts(choice.view().experts_of(r), choice.view().experts_of(r + 1));
          std::sort(experts.begin(), experts.end());
          EXPECT_TRUE(experts.front() >= 0 && experts.back() < item.n_experts) << value;
          EXPECT_EQ(std::adjacent_find(experts.begin(), experts.end()), experts.end()) << value;
        }
      }
    }
  }
}

// As gpt-oss has it, with bounds that gates and ups often meet, and Gemma 4.
constexpr ExpertGate kSilu = {}, kClamped = {1.25F, 1.702F}, kGelu = {.gelu = true};

/// Random experts, packed on any device; clamped ones with biases.
struct Bank {
  Bank(Scheme scheme, int32_t n, int32_t hidden, int32_t width, std::mt19937& random, ExpertGate gate_rule = kSilu)
      : rule(gate_rule) {
    std::normal_distribution<float> normal(0, 1);
    const bool clamped = rule.limit > 0;
    for (int32_t e = 0; e < n; ++e) {
      gate_up_bias.emplace_back();
      down_bias.emplace_back();
      for (int32_t i = 0; clamped && i < 2 * width; ++i) gate_up_bias.back().push_back(normal(random));
      for (int32_t i = 0; clamped && i < hidden; ++i) down_bias.back().push_back(normal(random));
      gate.emplace_back(scheme, width, hidden, random);
      up.emplace_back(scheme, width, hidden, random);
      down.emplace_back(scheme, hidden, width, random);
    }
  }
  std::unique_ptr<ExpertWeights> pack(Ops& ops) const {
    std::vector<ExpertSource> experts;
    for (size_t e = 0; e < down.size(); ++e) {
      experts.push_back({{{gate[e].part(0, gate[e].rows), up[e].part(0, up[e].rows)}, gate_up_bias[e]},
                         down[e].source(down_bias[e]),
                         rule});
    }
    return ops.pack_experts(experts);
  }
  ExpertGate rule;
  std::vector<Checkpoint> gate, up, down;
  std::vector<std::vector<float>> gate_up_bias, down_bias;
};

/// Choices as a router makes them, except that low experts are far more popular and some get none.
Choice skewed(int32_t rows, int32_t top_k, int32_t n_experts, std::mt19937& random) {
  Choice choice(rows, top_k);
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t j = 0; j < top_k; ++j) {
      int32_t& expert = choice.experts[r * top_k + j];
      do {
        const float u = std::uniform_real_distribution<float>()(random);
        expert = static_cast<int32_t>(u * u * u * static_cast<float>(n_experts - 1));
      } while (std::find(&choice.experts[r * top_k], &expert, expert) != &expert);
      choice.weights[r * top_k + j] = std::uniform_real_distribution<float>(0, 1)(random);
    }
  }
  return choice;
}

TEST_P(Experts, MixMatchesReference) {
  const auto ref = make_ref_ops();
  const auto cpu = make(2);
  struct Case {
    Scheme scheme;
    int32_t n, hidden, width, top_k;
    ExpertGate rule = kSilu;
  };
  for (const Case c : {Case{Scheme::kBF16, 12, 70, 45, 3}, Case{Scheme::kF32, 12, 70, 45, 3},
                       Case{Scheme::kF16, 5, 32, 16, 1}, Case{Scheme::kBF16, 16, 256, 96, 4},
                       Case{Scheme::kF32, 12, 70, 45, 3, kClamped}, Case{Scheme::kBF16, 16, 256, 96, 2, kClamped},
                       Case{Scheme::kF32, 12, 70, 45, 3, kGelu}, Case{Scheme::kBF16, 16, 256, 96, 2, kGelu}}) {
    Bank bank(c.scheme, c.n, c.hidden, c.width, random_, c.rule);
    if (c.top_k == 4) bank.up[3] = Checkpoint(Scheme::kF32, c.width, c.hidden, random_);  // schemes may differ
    const auto on_cpu = bank.pack(*cpu);
    const auto on_ref = bank.pack(*ref);
    for (const int32_t rows : {1, 2, 5, 16, 33, 210}) {
      Choice choice = skewed(rows, c.top_k, c.n, random_);
      Matrix x(rows, c.hidden);
      x.fill_normal(random_, 0.2F);
      Matrix got(rows, c.hidden, 3);
      got.fill_normal(random_);
      Matrix want = got;
      cpu->mix_experts(*on_cpu, x.view(), choice.view(), got.view());
      ref->mix_experts(*on_ref, x.view(), choice.view(), want.view());
      // Rounding to bf16 happens twice there: of the row, and of what enters the second product.
      const double limit = on_gpu() || (rounds_activations() && c.scheme == Scheme::kBF16) ? 1.0 / 32 : 2e-5;
      ASSERT_LT(worst_row_error(got, want), limit) << name_of(c.scheme) << " rows " << rows;
      ASSERT_TRUE(got.guards_intact());
    }
  }
}

TEST_P(Experts, RowsAreIndependent) {
  constexpr int32_t kRows = 64;
  struct Case {
    Scheme scheme;
    int32_t hidden, width;
    ExpertGate rule = kSilu;
  };
  // The larger ones are spread over the pool, the smaller ones are not.
  for (const Case c : {Case{Scheme::kBF16, 70, 45}, Case{Scheme::kF32, 40, 24}, Case{Scheme::kBF16, 192, 128},
                       Case{Scheme::kBF16, 70, 45, kClamped}, Case{Scheme::kBF16, 70, 45, kGelu}}) {
    const Bank bank(c.scheme, 10, c.hidden, c.width, random_, c.rule);
    Choice choice = skewed(kRows, 3, 10, random_);
    Matrix x(kRows, c.hidden);
    x.fill_normal(random_);
    Matrix start(kRows, c.hidden);
    start.fill_normal(random_);
    Matrix want = start;
    const auto one = make(1);
    const auto alone = bank.pack(*one);
    for (int32_t r = 0; r < kRows; ++r) {
      one->mix_experts(*alone, slice(x, r, 1), choice.view(r), slice(want, r, 1));
    }
    for (const int32_t threads : {1, 2, 3}) {
      const auto cpu = make(threads);
      const auto packed = bank.pack(*cpu);
      for (const int32_t n : {1, 2, 3, 7, 16, 17, 31, 64}) {
        for (int32_t first = 0; first + n <= kRows; first += n == 1 ? 1 : 11) {
          Matrix got = start;
          cpu->mix_experts(*packed, slice(x, first, n), choice.view(first), slice(got, first, n));
          for (int32_t r = first; r < first + n; ++r) {
            ASSERT_TRUE(same_bits(got.row(r), want.row(r), c.hidden))
                << "row " << r << " of " << n << " threads " << threads;
          }
        }
      }
    }
  }
}

// Where experts have many rows each, which may go through other products, even with experts that have none.
TEST_P(Experts, ManyRowsAreEachAsAlone) {
  const auto ops = make(2);
  const auto ref = make_ref_ops();
  for (const auto& [n, rows, hidden, width] :
       {std::tuple{4, 130, 64, 32}, {3, 300, 192, 128}, {8, 520, 128, 40}, {5, 200, 256, 512}, {4, 200, 512, 64}}) {
    const Bank bank(Scheme::kBF16, n, hidden, width, random_);
    Choice choice = skewed(rows, 2, n, random_);
    Matrix x(rows, hidden), start(rows, hidden, 3);
    x.fill_normal(random_, 0.2F);
    start.fill_normal(random_);
    const auto packed = bank.pack(*ops), on_ref = bank.pack(*ref);
    Matrix got = start, want = start;
    ops->mix_experts(*packed, x.view(), choice.view(), got.view());
    ref->mix_experts(*on_ref, x.view(), choice.view(), want.view());
    ASSERT_LT(worst_row_error(got, want), on_gpu() || rounds_activations() ? 1.0 / 32 : 2e-5) << n << " " << rows;
    ASSERT_TRUE(got.guards_intact());
    for (int32_t r = 0; r < rows; ++r) {
      ops->mix_experts(*packed, slice(x, r, 1), choice.view(r), slice(start, r, 1));
      ASSERT_TRUE(same_bits(got.row(r), start.row(r), hidden)) << n << " row " << r << " of " << rows;
    }
  }
}

TEST_P(Experts, ChoicesAreIndependent) {
  for (const RoutingCase& item : kRoutings) {
    Matrix logits(33, item.n_experts);
    logits.fill_normal(random_);
    const auto one = make(1);
    const auto many = make(3);
    Choice want(33, item.routing.top_k);
    Choice got = want;
    for (int32_t r = 0; r < 33; ++r) one->route(slice(logits, r, 1), nullptr, item.routing, want.view(r));
    many->route(logits.view(), nullptr, item.routing, got.view());
    EXPECT_EQ(got.experts, want.experts);
    EXPECT_TRUE(same_bits(got.weights.data(), want.weights.data(), static_cast<int32_t>(got.weights.size())));
  }
}

ASHLAR_FOR_EACH_ISA(Experts);

}  // namespace
}  // namespace ashlar::conformance
