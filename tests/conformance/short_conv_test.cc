// SPDX-License-Identifier: Apache-2.0
// Gated short convolutions against the reference and against their sum written out, and their bits: a row's do not
// depend on how its sequence is cut into spans, which rows went through the log, or who else is in the batch.

#include "support.h"

namespace ashlar::conformance {
namespace {

constexpr int32_t kConvLogRows = 8, kConvSlots = 3, kConvSnapshots = 1, kShortConvRows = 37;

const ShortConvShape kShortConvShapes[] = {{24, 3}, {200, 4}, {65, 1}, {7, 16}, {129, 2}};

struct Weights {
  Weights(const ShortConvShape& conv, std::mt19937& random) : shape(conv) {
    std::normal_distribution<float> normal(0.2F, 0.6F);
    taps.resize(static_cast<size_t>(conv.taps) * static_cast<size_t>(conv.channels));
    bias.resize(static_cast<size_t>(conv.channels));
    for (float& value : taps) value = normal(random);
    for (float& value : bias) value = normal(random);
  }
  ShortConvShape shape;
  std::vector<float> taps, bias;
};

/// The next `rows` rows of one slot, of which `committed` stay; after row `saved` the state goes to the snapshot.
struct ConvCut {
  int32_t slot, rows, choices, committed, saved = -1;
};

class ConvMemory {
 public:
  ConvMemory(Ops& ops, const Weights& weights)
      : ops_(ops),
        weights_(weights),
        states_(ops, weights.shape.state_floats(), weights.shape.log_floats(), kConvSlots, kConvLogRows,
                kConvSnapshots) {}

  /// Rows [done, done + rows) of inputs[slot]; the answers of those that stay go to the same rows of outputs[slot].
  void run(std::vector<Matrix>& inputs, std::vector<Matrix>& outputs, const std::vector<ConvCut>& cuts) {
    std::vector<int32_t> positions, tables;
    std::vector<StateSpan> spans;
    for (const ConvCut& cut : cuts) {
      for (int32_t r = 0; r < cut.rows; ++r) {
        positions.push_back(done[cut.slot] + r);
        tables.push_back(static_cast<int32_t>(spans.size()));
      }
      spans.push_back({cut.slot, replays_[cut.slot], cut.choices, {{cut.saved, cut.saved < 0 ? -1 : 0}, {}}});
    }
    const auto n = static_cast<int32_t>(positions.size());
    Matrix in(n, weights_.shape.projected_width()), out(n, weights_.shape.channels);
    int32_t row = 0;
    for (const ConvCut& cut : cuts) {
      for (int32_t r = 0; r < cut.rows; ++r) {
        std::copy_n(inputs[cut.slot].row(done[cut.slot] + r), in.cols(), in.row(row++));
      }
    }
    Rows rows;
    rows.n = n;
    rows.positions = positions.data();
    rows.tables = tables.data();
    rows.states = spans.data();
    const float* const bias = with_bias ? weights_.bias.data() : nullptr;
    ops_.short_conv(in.view(), {weights_.shape, weights_.taps.data(), bias, rows, states_.plane}, out.view());
    EXPECT_TRUE(in.guards_intact() && out.guards_intact());
    row = 0;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const ConvCut& cut = cuts[i];
      for (int32_t r = 0; r < cut.committed; ++r) {
        std::copy_n(out.row(row + r), out.cols(), outputs[cut.slot].row(done[cut.slot] + r));
      }
      row += cut.rows;
      done[cut.slot] += cut.committed;
      replays_[cut.slot] = spans[i].replays_after(cut.rows, cut.committed);
    }
  }
  void restore(int32_t slot, int32_t tokens) {
    std::memcpy(states_.plane.state(slot), states_.plane.snapshot(0), static_cast<size_t>(states_.plane.stride));
    done[slot] = tokens;
    replays_[slot] = 0;
  }

  int32_t done[kConvSlots] = {};
  bool with_bias = true;

 private:
  Ops& ops_;
  const Weights& weights_;
  States states_;
  int32_t replays_[kConvSlots] = {};
};

class ShortConvs : public OnIsa {
 protected:
  std::vector<Matrix> inputs(const ShortConvShape& shape) {
    std::vector<Matrix> all;
    for (int32_t slot = 0; slot < kConvSlots; ++slot)
      all.emplace_back(kShortConvRows, shape.projected_width()).fill_normal(random_);
    return all;
  }
  static std::vector<Matrix> outputs(const ShortConvShape& shape) {
    return {kConvSlots, Matrix(kShortConvRows, shape.channels)};
  }
  static void expect_same(const Matrix& got, const Matrix& want) {
    for (int32_t r = 0; r < want.rows(); ++r) ASSERT_TRUE(same_bits(got.row(r), want.row(r), want.cols())) << r;
  }
  // Answers in bf16: each is off by at most half a unit of its own, however large it is among its row.
  static void expect_rounded(const Matrix& got, const Matrix& want) {
    for (int32_t r = 0; r < want.rows(); ++r) {
      for (int32_t c = 0; c < want.cols(); ++c) {
        const float is = got.row(r)[c], should_be = want.row(r)[c];
        ASSERT_NEAR(is, should_be, std::abs(should_be) / 256 + 1e-4F) << r << ", " << c;
      }
    }
  }
};

TEST_P(ShortConvs, AreTheirSums) {
  const auto ref = make_ref_ops();
  for (const ShortConvShape& shape : kShortConvShapes) {
    const Weights weights(shape, random_);
    std::vector<Matrix> in = inputs(shape), want = outputs(shape);
    for (const bool bias : {true, false}) {
      for (int32_t r = 0; r < kShortConvRows; ++r) {
        for (int32_t c = 0; c < shape.channels; ++c) {
          double sum = bias ? weights.bias[static_cast<size_t>(c)] : 0.0;
          for (int32_t t = 0; t < shape.taps && t <= r; ++t) {
            const float* const row = in[1].row(r - t);
            const float tap = weights.taps[static_cast<size_t>((shape.taps - 1 - t) * shape.channels + c)];
            sum += double{tap} * row[c] * row[2 * shape.channels + c];
          }
          want[1].row(r)[c] = static_cast<float>(in[1].row(r)[shape.channels + c] * sum);
        }
      }
      const auto device = make(2);
      for (Ops* const ops : {device.get(), ref.get()}) {
        ConvMemory memory(*ops, weights);
        memory.with_bias = bias;
        std::vector<Matrix> got = outputs(shape);
        memory.run(in, got, {{1, 20, 2, 19}});
        memory.run(in, got, {{1, kShortConvRows - 19, 1, kShortConvRows - 19}});
        if (ops != ref.get() && on_gpu()) {
          expect_rounded(got[1], want[1]);
        } else {
          EXPECT_LT(worst_row_error(got[1], want[1]), 1e-5) << shape.channels << " x " << shape.taps;
        }
      }
    }
  }
}

TEST_P(ShortConvs, CutsAndOthersChangeNoBit) {
  for (const ShortConvShape& shape : kShortConvShapes) {
    const Weights weights(shape, random_);
    std::vector<Matrix> in = inputs(shape), want = outputs(shape);
    const auto one = make(1);
    ConvMemory whole(*one, weights);
    for (int32_t slot = 0; slot < kConvSlots; ++slot) whole.run(in, want, {{slot, kShortConvRows, 1, kShortConvRows}});
    for (const int32_t threads : {1, 3}) {
      const auto ops = make(threads);
      ConvMemory memory(*ops, weights);
      std::vector<Matrix> got = outputs(shape);
      memory.run(in, got, {{2, 7, 2, 7}, {0, 1, 1, 1}, {1, 20, 4, 18}});
      memory.run(in, got, {{0, 8, 8, 2}, {1, 5, 8, 0}, {2, 3, 3, 1}});
      memory.run(in, got, {{1, 1, 1, 1}, {0, 8, 8, 8}, {2, 8, 8, 5}});
      memory.run(in, got, {{2, 24, 2, 24}, {0, 26, 2, 26, 25}, {1, 18, 2, 18}});
      for (int32_t slot = 0; slot < kConvSlots; ++slot) expect_same(got[slot], want[slot]);
    }
  }
}

TEST_P(ShortConvs, SnapshotsContinueWithTheSameBits) {
  for (const ShortConvShape& shape : kShortConvShapes) {
    const Weights weights(shape, random_);
    std::vector<Matrix> in = inputs(shape), want = outputs(shape);
    in[2] = in[0];
    const auto ops = make(2);
    for (const int32_t saved : {0, 1, 15, 34, 35}) {
      ConvMemory memory(*ops, weights);
      memory.run(in, want, {{0, kShortConvRows, 3, kShortConvRows, saved}});
      std::vector<Matrix> got = outputs(shape);
      for (int32_t r = 0; r <= saved; ++r) std::copy_n(want[0].row(r), shape.channels, got[2].row(r));
      memory.restore(2, saved + 1);
      memory.run(in, got, {{2, kShortConvRows - saved - 1, 2, kShortConvRows - saved - 1}});
      expect_same(got[2], want[0]);
    }
  }
}

ASHLAR_FOR_EACH_ISA(ShortConvs);

}  // namespace
}  // namespace ashlar::conformance
