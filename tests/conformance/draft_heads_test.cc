// SPDX-License-Identifier: Apache-2.0
// Grouped convolutions, candidates, their edges and attention among them against the reference, each sequence or row
// alone and in a batch.

#include <limits>

#include "support.h"

namespace ashlar::conformance {
namespace {

class DraftHeads : public OnIsa {};

Tensor part(Matrix& from, int32_t first, int32_t n) { return from.view().part(first, n); }

struct Conv {
  Conv(int32_t rows, int32_t channels, int32_t taps, int32_t group, std::mt19937& random)
      : x(rows, channels),
        dynamic(rows, taps * (channels / group)),
        base(1, taps * channels),
        op{taps, group, nullptr} {
    x.fill_normal(random);
    dynamic.fill_normal(random);
    base.fill_normal(random);
    op.base = base.row(0);
  }
  Matrix x, dynamic, base;
  GroupedConv op;
};

TEST_P(DraftHeads, GroupedConv) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  for (const auto& [channels, group, taps] :
       {std::tuple{64, 16, 2}, {48, 16, 3}, {60, 5, 2}, {96, 24, 4}, {7, 1, 2}, {40, 40, 1}}) {
    Conv conv(31, channels, taps, group, random_);
    // Sequences of 1, 2, 8 and 20 rows.
    std::vector<int32_t> tables(31, 3);
    std::fill_n(tables.begin(), 11, 2);
    std::fill_n(tables.begin(), 3, 1);
    tables[0] = 0;
    for (const Store store : {Store::kOverwrite, Store::kAdd}) {
      Matrix got(31, channels, 3);
      got.fill_normal(random_);
      Matrix want = got;
      const Matrix before = got;
      cpu->grouped_conv(conv.x.view(), conv.dynamic.view(), conv.op, tables.data(), store, got.view());
      ref->grouped_conv(conv.x.view(), conv.dynamic.view(), conv.op, tables.data(), store, want.view());
      ASSERT_LT(worst_row_error(got, want), bound(2e-6, 1.0 / 64)) << channels;
      ASSERT_TRUE(got.guards_intact());
      // Invariant: row-invariance. What a sequence gives, alone and in a batch.
      for (const auto& [first, n] : {std::pair{0, 1}, {1, 2}, {3, 8}, {11, 20}}) {
        Matrix alone = before;
        cpu->grouped_conv(part(conv.x, first, n), part(conv.dynamic, first, n), conv.op, tables.data() + first, store,
                          part(alone, first, n));
        for (int32_t r = first; r < first + n; ++r) ASSERT_TRUE(same_bits(alone.row(r), got.row(r), channels)) << r;
      }
    }
  }
}

TEST_P(DraftHeads, Candidates) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const int32_t vocab : {5, 96, 1000, 5003}) {
    Matrix logits(9, vocab);
    logits.fill_normal(random_, 2);
    for (int32_t i = 0; i < vocab; ++i) {
      logits.row(1)[i] = static_cast<float>(i % 3);  // ties
      logits.row(2)[i] = i % 7 == 0 ? NAN : logits.row(2)[i];
      logits.row(3)[i] = i < 3 ? logits.row(3)[i] : kNone;
      logits.row(4)[i] = NAN;
    }
    for (const int32_t n : {1, 4, 16, kMaxCandidates}) {
      const auto size = static_cast<size_t>(9 * n);
      std::vector<int32_t> got(size, -7), want(size);
      std::vector<float> got_logits(size), want_logits(size);
      cpu->find_candidates(logits.view(), {n, got.data(), got_logits.data()});
      ref->find_candidates(logits.view(), {n, want.data(), want_logits.data()});
      ASSERT_EQ(got, want) << vocab << " " << n;
      ASSERT_EQ(got_logits, want_logits);
    }
  }
}

TEST_P(DraftHeads, Edges) {
  const auto ref = make_ref_ops();
  constexpr int32_t kRows = 9;
  const std::vector<int32_t> begins = {0, -1, -1, 1, 2, -1, -1, -1, -1};
  for (const auto& [n, rank] : {std::pair{6, 16}, {16, 256}, {1, 7}, {3, 50}}) {
    Matrix anchors(3, rank), before(kRows * n, rank), after(kRows * n, rank), hidden(kRows, rank);
    for (Matrix* matrix : {&anchors, &before, &after, &hidden}) matrix->fill_normal(random_);
    std::vector<float> logits(static_cast<size_t>(kRows * n));
    for (float& logit : logits) logit = static_cast<float>(random_() % 1000) * 0.01F;
    const auto edges = [&](int32_t first) {
      return CandidateEdges{{n, nullptr, logits.data() + first * n},
                            begins.data() + first,
                            anchors.view(),
                            before.view().skip(first * n),
                            after.view().skip(first * n),
                            hidden.view().skip(first),
                            0.5F};
    };
    Matrix want(kRows, n * n);
    ref->score_edges(edges(0), want.view());
    for (const int32_t threads : {1, 3}) {
      const auto cpu = make(threads);
      Matrix got(kRows, n * n);
      cpu->score_edges(edges(0), got.view());
      for (int32_t r = 0; r < kRows; ++r) {
        const int32_t columns = begins[static_cast<size_t>(r)] >= 0 ? n : n * n;
        const double scale = norm(want.row(r), columns) / std::sqrt(columns);
        for (int32_t i = 0; i < columns; ++i) {
          ASSERT_NEAR(got.row(r)[i], want.row(r)[i], 2e-6 * scale * std::sqrt(rank)) << n << " " << r;
        }
      }
      ASSERT_TRUE(got.guards_intact());
      // Invariant: row-invariance. Each block alone.
      for (const auto& [first, rows] : {std::pair{0, 3}, {3, 1}, {4, 5}}) {
        Matrix alone(kRows, n * n);
        cpu->score_edges(edges(first), part(alone, 0, rows));
        for (int32_t r = 0; r < rows; ++r) {
          ASSERT_TRUE(same_bits(alone.row(r), got.row(first + r), r == 0 ? n : n * n));
        }
      }
    }
  }
}

TEST_P(DraftHeads, Attention) {
  const auto ref = make_ref_ops();
  // Blocks of 1, 3 and 5 positions.
  const std::vector<int32_t> first = {0, 1, 1, 1, 4, 4, 4, 4, 4}, end = {1, 4, 4, 4, 9, 9, 9, 9, 9};
  const auto positions = static_cast<int32_t>(first.size());
  for (const auto& [n, heads, width, reach] : {std::tuple{8, 4, 32, 4}, {1, 2, 5, 7}, {6, 1, 40, 4}, {3, 3, 16, 15}}) {
    const int32_t cols = heads * width, rows = positions * n;
    Matrix qkv(rows, 3 * cols), bias(heads, 2 * reach + 1);
    qkv.fill_normal(random_, 1.5F);
    std::vector<float> biases;
    bias.fill_normal(random_, 2);
    for (int32_t h = 0; h < heads; ++h) biases.insert(biases.end(), bias.row(h), bias.row(h) + 2 * reach + 1);
    const CandidateAttention call = {n, heads, reach, biases.data(), first.data(), end.data()};
    Matrix want(rows, cols);
    ref->candidate_attention(qkv.view(), call, want.view());
    // A GPU's sums are rounded to bf16 once: by up to 2^-8 of numbers that may be five times the row's root mean
    // square.
    Matrix rounded = want;
    rounded.round_to_bf16();
    const double most = bound(3e-6, 1.1 * worst_row_error(rounded, want));
    for (const int32_t threads : {1, 3}) {
      const auto cpu = make(threads);
      Matrix got(rows, cols, 3);
      cpu->candidate_attention(qkv.view(), call, got.view());
      ASSERT_LT(worst_row_error(got, want), most) << n << " " << heads;
      ASSERT_TRUE(got.guards_intact());
      // Invariant: row-invariance. Each block alone, whose positions then count from 0.
      for (const auto& [from, to] : {std::pair{0, 1}, {1, 4}, {4, 9}}) {
        const std::vector<int32_t> begins(5, 0), ends(5, to - from);
        Matrix alone(rows, cols);
        cpu->candidate_attention(part(qkv, from * n, (to - from) * n),
                                 {n, heads, reach, biases.data(), begins.data(), ends.data()},
                                 part(alone, 0, (to - from) * n));
        for (int32_t r = 0; r < (to - from) * n; ++r) {
          ASSERT_TRUE(same_bits(alone.row(r), got.row(from * n + r), cols)) << r;
        }
      }
    }
  }
}

ASHLAR_FOR_EACH_ISA(DraftHeads);

}  // namespace
}  // namespace ashlar::conformance
