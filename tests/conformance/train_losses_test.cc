// SPDX-License-Identifier: Apache-2.0
// What ends a drafter's training pass: its losses, and the parts of DFlash2's head.

#include "train_support.h"

namespace ashlar::conformance {
namespace {

constexpr DistributionLoss kDistributionLosses[] = {DistributionLoss::kKl, DistributionLoss::kTv,
                                                    DistributionLoss::kOverlap, DistributionLoss::kLk};

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

// A target of fewer columns than the head is one of zeros in the others.
TEST_P(TrainOpsOnIsa, DistributionLossOfANarrowTarget) {
  Matrix hidden = normal(70, 24, 0.7F), target = normal(70, 24, 0.7F), head = normal(333, 24), x = normal(70, 5);
  for (Matrix* factor : {&hidden, &target, &head}) factor->round_to_bf16();  // as in DistributionLoss
  for (int32_t r = 0; r < 70; ++r) std::fill(target.row(r) + 16, target.row(r) + 24, 0.0F);
  for (const DistributionLoss loss : kDistributionLosses) {
    SCOPED_TRACE("loss " + std::to_string(static_cast<int>(loss)));
    Matrix d_hidden[2] = {Matrix(70, 24), Matrix(70, 24)}, d_weight[2] = {Matrix(333, 5), Matrix(333, 5)};
    std::vector<TokenLoss> losses[2];
    for (const size_t is_narrow : {0, 1}) {
      const Tensor of_target = is_narrow == 1 ? target.view().columns(0, 16) : target.view();
      losses[is_narrow].resize(70);
      ops_->distribution_loss(hidden.view(), of_target, head.view(), loss, losses[is_narrow].data(),
                              d_hidden[is_narrow].view(), {});
      ops_->head_gradient({hidden.view(), head.view(), nullptr, of_target, loss}, x.view(), d_weight[is_narrow].view());
    }
    for (int32_t r = 0; r < 70; ++r) {
      const auto i = static_cast<size_t>(r);
      EXPECT_NEAR(losses[1][i].loss, losses[0][i].loss, bound(1e-5, 1e-3) * (1 + losses[0][i].loss));
      for (int32_t c = 0; c < 24; ++c) {
        EXPECT_NEAR(d_hidden[1].row(r)[c], d_hidden[0].row(r)[c], bound(1e-4, 1e-2)) << r << ' ' << c;
      }
    }
    for (int32_t id = 0; id < 333; ++id) {
      for (int32_t c = 0; c < 5; ++c) EXPECT_NEAR(d_weight[1].row(id)[c], d_weight[0].row(id)[c], bound(1e-4, 1e-2));
    }
  }
}

// Each loss by itself: what it adds to a gradient that is there.
TEST_P(TrainOpsOnIsa, HeadGradient) {
  const Size sizes[] = {{1, 2, 4}, {70, 333, 24}, {1100, 40, 8}};  // the last one takes two pieces of rows
  for (const Size& size : sizes) {
    Matrix hidden = normal(size.m, size.k, 0.7F), target = normal(size.m, size.k, 0.7F), head = normal(size.n, size.k);
    for (Matrix* factor : {&hidden, &target, &head}) factor->round_to_bf16();  // as in DistributionLoss
    Matrix x = normal(size.m, 5), start = normal(size.n, 5, 0.1F);
    std::vector<int32_t> labels(static_cast<size_t>(size.m));
    for (int32_t& label : labels) label = static_cast<int32_t>(random_() % static_cast<uint32_t>(size.n));
    const auto check = [&](const LossRows& rows, const std::string& what) {
      compare(
          start, [&](TrainOps& ops, Matrix& d_weight) { ops.head_gradient(rows, x.view(), d_weight.view()); },
          what.c_str(), bound(1e-4, 5e-2));
    };
    check({hidden.view(), head.view(), labels.data()}, "of labels");
    for (const DistributionLoss loss : kDistributionLosses) {
      check({hidden.view(), head.view(), nullptr, target.view(), loss},
            "loss " + std::to_string(static_cast<int>(loss)) + " of " + std::to_string(size.n) + " logits");
    }
  }
}

struct ConvCase {
  int32_t rows, channels, taps, group, block;
};

TEST_P(TrainOpsOnIsa, BlockConv) {
  for (const ConvCase& c : {ConvCase{4, 4, 2, 4, 2},
                            {35, 24, 3, 4, 5},
                            {66, 48, 2, 16, 6},
                            {2064, 40, 4, 20, 16},
                            {12304, 48, 2, 16, 16}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.channels));
    // Where groups are of four channels a GPU may read as many at once, if rows allow.
    const int32_t extra = c.group % 4 == 0 ? 4 : 5;
    Matrix x = normal(c.rows, c.channels, 1, extra);
    Matrix dynamic = normal(c.rows, c.taps * (c.channels / c.group));
    Matrix base = normal(1, c.taps * c.channels);
    Matrix d_out = normal(c.rows, c.channels, 1, extra);
    const BlockConvolution rows = {x.view(), dynamic.view(), {c.taps, c.group, base.row(0)}, c.block};
    for (const Store store : {Store::kOverwrite, Store::kAdd}) {
      compare(
          normal(c.rows, c.channels, 1, extra),
          [&](TrainOps& ops, Matrix& out) { ops.block_conv(rows, store, out.view()); }, "block_conv");
    }
    Matrix d_x(c.rows, c.channels, extra), d_dynamic(c.rows, dynamic.cols()), d_base = normal(1, base.cols());
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
  for (const Case& c :
       {Case{1, 2, 4, 1, 1}, {70, 333, 24, 37, 16}, {1100, 40, 8, 8, 5}, {9, 50, 8, 64, 32}, {40, 9001, 16, 8, 16}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " of " + std::to_string(c.n));
    Matrix hidden = normal(c.rows, c.width), head = normal(c.vocab, c.width), projected = normal(c.rows, c.rank);
    Matrix predecessors = normal(c.vocab, c.rank, 0.3F), successors = normal(c.vocab, c.rank, 0.3F);
    std::fill_n(hidden.row(0), c.width, 0.0F);  // whose logits are all equal
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

}  // namespace
}  // namespace ashlar::conformance
