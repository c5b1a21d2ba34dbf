// SPDX-License-Identifier: Apache-2.0
// Gated delta nets against the reference, and their bits: a row's do not depend on how its sequence is cut into spans,
// which rows went through the log, who else is in the batch, or where a sequence begins again.

#include <numeric>

#include "support.h"

namespace ashlar::conformance {
namespace {

constexpr int32_t kLogRows = 8;
constexpr int32_t kSlots = 3;
constexpr int32_t kSnapshots = 2;

const DeltaShape kDeltaNetShapes[] = {{2, 6, 12, 20, 4},  {3, 3, 16, 16, 2},  {1, 2, 128, 128, 4},
                                      {2, 2, 33, 71, 3},  {1, 4, 5, 3, 1},    {2, 6, 12, 20, 4, true},
                                      {1, 2, 200, 24, 4}, {1, 2, 128, 40, 4}, {1, 1, 512, 16, 4}};

/// Weights of one layer, inputs of several sequences.
struct Layer {
  Layer(const DeltaShape& delta, std::mt19937& random) : shape(delta) {
    const auto fill = [&random](std::vector<float>& values, int64_t n, float mean, float deviation) {
      std::normal_distribution<float> normal(mean, deviation);
      values.resize(static_cast<size_t>(n));
      for (float& value : values) value = normal(random);
    };
    fill(taps, int64_t{shape.taps} * shape.channels(), 0.2F, 0.5F);
    fill(decay, shape.n_v_heads, 0, 0.5F);
    for (float& value : decay) value = -std::exp(value - 1);
    fill(bias, shape.n_v_heads, -1, 1);
    fill(norm, shape.v_dim, 1, 0.3F);
  }
  DeltaWeights weights() const { return {taps.data(), decay.data(), bias.data(), norm.data(), 1e-6F}; }

  DeltaShape shape;
  std::vector<float> taps, decay, bias, norm;
};

/// Rows of one sequence in a call. `committed`: how many of them stay.
struct Cut {
  int32_t rows;
  int32_t choices;
  int32_t committed;
  StateSpan::Save save = {}, another = {};
};

/// States of a layer on a device, and how far each slot is.
class Memory {
 public:
  Memory(Ops& ops, const Layer& layer)
      : ops_(ops),
        layer_(layer),
        states_(ops, layer.shape.state_floats(), layer.shape.log_floats(), kSlots, kLogRows, kSnapshots) {}

  /// The next rows of some slots in one call: rows [done, done + cut.rows) of inputs[slot]. The answers of those that
  /// stay go to the same rows of outputs[slot].
  void run(std::vector<Matrix>& inputs, std::vector<Matrix>& outputs,
           const std::vector<std::pair<int32_t, Cut>>& cuts) {
    std::vector<int32_t> positions, tables;
    std::vector<StateSpan> spans;
    for (const auto& [slot, cut] : cuts) {
      for (int32_t r = 0; r < cut.rows; ++r) {
        positions.push_back(done_[slot] + r);
        tables.push_back(static_cast<int32_t>(spans.size()));
      }
      spans.push_back({slot, replays_[slot], cut.choices, {cut.save, cut.another}});
    }
    const auto n = static_cast<int32_t>(positions.size());
    Matrix in(n, layer_.shape.projected_width()), out(n, layer_.shape.v_width());
    int32_t row = 0;
    for (const auto& [slot, cut] : cuts) {
      for (int32_t r = 0; r < cut.rows; ++r) std::copy_n(inputs[slot].row(done_[slot] + r), in.cols(), in.row(row++));
    }
    Rows rows;
    rows.n = n;
    rows.positions = positions.data();
    rows.tables = tables.data();
    rows.states = spans.data();
    ops_.gated_delta_net(in.view(), {layer_.shape, layer_.weights(), rows, states_.plane}, out.view());
    EXPECT_TRUE(in.guards_intact() && out.guards_intact());
    row = 0;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const auto& [slot, cut] = cuts[i];
      for (int32_t r = 0; r < cut.committed; ++r) {
        std::copy_n(out.row(row + r), out.cols(), outputs[slot].row(done_[slot] + r));
      }
      row += cut.rows;
      done_[slot] += cut.committed;
      replays_[slot] = spans[i].replays_after(cut.rows, cut.committed);
    }
  }

  void begin_again(int32_t slot) { done_[slot] = replays_[slot] = 0; }
  /// Slot `slot` stands after `tokens` tokens, as a snapshot has them.
  void restore(int32_t snapshot, int32_t slot, int32_t tokens) {
    std::memcpy(states_.plane.state(slot), states_.plane.snapshot(snapshot), static_cast<size_t>(states_.plane.stride));
    done_[slot] = tokens;
    replays_[slot] = 0;
  }
  int32_t done(int32_t slot) const { return done_[slot]; }
  const float* snapshot(int32_t index) const { return reinterpret_cast<const float*>(states_.plane.snapshot(index)); }

 private:
  Ops& ops_;
  const Layer& layer_;
  States states_;
  int32_t done_[kSlots] = {};
  int32_t replays_[kSlots] = {};
};

testing::AssertionResult same(const Matrix& got, const Matrix& want) {
  for (int32_t r = 0; r < want.rows(); ++r) {
    if (!same_bits(got.row(r), want.row(r), want.cols())) return testing::AssertionFailure() << "row " << r;
  }
  return testing::AssertionSuccess();
}

class DeltaNets : public OnIsa {
 protected:
  /// worst_row_error, on a GPU beyond what the rounding of an answer to bf16 may add.
  double error_of(const Matrix& got, const Matrix& want) const {
    Matrix near = want;
    for (int32_t r = 0; r < want.rows() && on_gpu(); ++r) {
      for (int32_t c = 0; c < want.cols(); ++c) {
        const float room = std::abs(want.row(r)[c]) / 256;
        near.row(r)[c] = std::clamp(got.row(r)[c], want.row(r)[c] - room, want.row(r)[c] + room);
      }
    }
    return worst_row_error(got, near);
  }
  std::vector<Matrix> inputs(const DeltaShape& shape, int32_t rows) {
    std::vector<Matrix> all;
    for (int32_t slot = 0; slot < kSlots; ++slot) all.emplace_back(rows, shape.projected_width()).fill_normal(random_);
    return all;
  }
  static std::vector<Matrix> outputs(const DeltaShape& shape, int32_t rows) {
    return {kSlots, Matrix(rows, shape.v_width())};
  }
};

TEST_P(DeltaNets, LeaveAnswersByTurns) {
  DeltaShape shape = {3, 6, 8, 5, 2};
  Layer layer(shape, random_);
  constexpr int32_t kRows = 9;
  std::vector<Matrix> in = inputs(shape, kRows), grouped = outputs(shape, kRows), by_turns = grouped;
  const auto ops = make(2);
  for (auto* side : {&grouped, &by_turns}) {
    layer.shape.outputs_by_turns = side == &by_turns;
    Memory(*ops, layer).run(in, *side, {{0, {kRows, 1, kRows}}});
  }
  // Of key heads A, B and C: A0 A1 B0 B1 C0 C1 as A0 B0 C0 A1 B1 C1.
  constexpr int32_t kPlaces[] = {0, 3, 1, 4, 2, 5};
  for (int32_t r = 0; r < kRows; ++r) {
    for (int32_t h = 0; h < shape.n_v_heads; ++h) {
      EXPECT_TRUE(
          same_bits(by_turns[0].row(r) + kPlaces[h] * shape.v_dim, grouped[0].row(r) + h * shape.v_dim, shape.v_dim))
          << "row " << r << ", head " << h;
    }
  }
}

TEST_P(DeltaNets, MatchReference) {
  const double tolerance = 3e-5;  // of sums in fp32 that go through 70 rows
  const auto ref = make_ref_ops();
  for (const DeltaShape& shape : kDeltaNetShapes) {
    const Layer layer(shape, random_);
    constexpr int32_t kRows = 70;
    std::vector<Matrix> in = inputs(shape, kRows), got = outputs(shape, kRows), want = got;
    const auto cpu = make(2);
    Memory on_cpu(*cpu, layer), on_ref(*ref, layer);
    for (auto* side : {&got, &want}) {
      Memory& memory = side == &got ? on_cpu : on_ref;
      memory.run(in, *side, {{0, {40, 2, 39, {31, 1}, {12, 0}}}, {1, {kRows, 3, kRows}}, {2, {1, 1, 1}}});
      memory.run(in, *side, {{0, {31, 1, 31}}, {2, {8, 8, 5}}});
      memory.run(in, *side, {{2, {kRows - 6, 2, kRows - 6}}});
    }
    for (int32_t slot = 0; slot < kSlots; ++slot) {
      EXPECT_LT(error_of(got[slot], want[slot]), tolerance) << shape.k_dim << " slot " << slot;
    }
    for (const int32_t snapshot : {0, 1}) {
      Matrix state(1, static_cast<int32_t>(shape.state_floats())), expected = state;
      std::copy_n(on_cpu.snapshot(snapshot), state.cols(), state.row(0));
      std::copy_n(on_ref.snapshot(snapshot), state.cols(), expected.row(0));
      EXPECT_LT(worst_row_error(state, expected), tolerance) << shape.k_dim << " snapshot " << snapshot;
    }
  }
}

TEST_P(DeltaNets, CutsChangeNoBit) {
  constexpr int32_t kRows = 53;
  for (const DeltaShape& shape : kDeltaNetShapes) {
    const Layer layer(shape, random_);
    std::vector<Matrix> in = inputs(shape, kRows), want = outputs(shape, kRows);
    const auto one = make(1);
    Memory whole(*one, layer);
    whole.run(in, want, {{1, {kRows, 1, kRows}}});
    const auto ends_with = [&](std::vector<Cut> cuts) {  // the last one is repeated
      for (const int32_t threads : {1, 3}) {
        const auto ops = make(threads);
        Memory memory(*ops, layer);
        std::vector<Matrix> got = outputs(shape, kRows);
        for (size_t i = 0; memory.done(1) < kRows; i = std::min(i + 1, cuts.size() - 1)) {
          Cut cut = cuts[i];
          cut.rows = std::min(cut.rows, kRows - memory.done(1));
          cut.committed = std::min(cut.committed, cut.rows);
          memory.run(in, got, {{1, cut}});
        }
        ASSERT_TRUE(same(got[1], want[1])) << shape.k_dim << ", spans of " << cuts.back().rows << " rows, "
                                           << cuts.back().committed << " of them stay";
      }
    };
    ends_with({{1, 1, 1}});
    ends_with({{13, 2, 13}});
    ends_with({{13, 2, 12}, {1, 1, 1}});
    ends_with({{20, 2, 20}, {8, 8, 3}});
    ends_with({{8, 8, 8}});
    ends_with({{5, 8, 1}});
    ends_with({{8, 8, 0}, {8, 8, 5}, {2, 1, 2}, {3, 3, 1}});
    ends_with({{40, 8, 35}, {1, 1, 0}, {1, 1, 1}});
  }
}

TEST_P(DeltaNets, OthersInTheBatchChangeNoBit) {
  constexpr int32_t kRows = 30;
  for (const DeltaShape& shape : kDeltaNetShapes) {
    const Layer layer(shape, random_);
    std::vector<Matrix> in = inputs(shape, kRows), want = outputs(shape, kRows);
    const auto one = make(1);
    Memory alone(*one, layer);
    for (int32_t slot = 0; slot < kSlots; ++slot) alone.run(in, want, {{slot, {kRows, 1, kRows}}});
    for (const int32_t threads : {1, 2, 3}) {
      const auto ops = make(threads);
      Memory memory(*ops, layer);
      std::vector<Matrix> got = outputs(shape, kRows);
      memory.run(in, got, {{2, {7, 2, 7}}, {0, {1, 1, 1}}, {1, {20, 4, 18}}});
      memory.run(in, got, {{0, {8, 8, 2}}, {1, {12, 1, 12}}, {2, {3, 3, 1}}});
      memory.run(in, got, {{1, {1, 1, 0}}, {2, {22, 2, 22}}, {0, {27, 2, 27}}});
      // A slot that is used again knows nothing of the sequence before.
      memory.begin_again(1);
      memory.run(in, got, {{1, {kRows, 2, kRows}}});
      for (int32_t slot = 0; slot < kSlots; ++slot) ASSERT_TRUE(same(got[slot], want[slot])) << shape.k_dim;
    }
  }
}

TEST_P(DeltaNets, ManyRowsOfSeveralChangeNoBit) {
  constexpr int32_t kRows = 90;  // 270 together
  const Layer layer({2, 4, 16, 8, 4}, random_);
  std::vector<Matrix> in = inputs(layer.shape, kRows), want = outputs(layer.shape, kRows), got = want;
  const auto ops = make(2);
  Memory alone(*ops, layer), together(*ops, layer);
  for (int32_t slot = 0; slot < kSlots; ++slot) alone.run(in, want, {{slot, {kRows, 1, kRows}}});
  together.run(in, got, {{1, {kRows, 2, kRows}}, {0, {kRows - 1, 1, kRows - 1}}, {2, {kRows, 3, kRows}}});
  together.run(in, got, {{0, {1, 1, 1}}});
  for (int32_t slot = 0; slot < kSlots; ++slot) EXPECT_TRUE(same(got[slot], want[slot])) << "slot " << slot;
}

TEST_P(DeltaNets, SnapshotsContinueWithTheSameBits) {
  constexpr int32_t kRows = 41;
  for (const DeltaShape& shape : kDeltaNetShapes) {
    const Layer layer(shape, random_);
    std::vector<Matrix> in = inputs(shape, kRows), want = outputs(shape, kRows);
    in[1] = in[2] = in[0];
    const auto ops = make(2);
    Memory memory(*ops, layer);
    for (const int32_t saved : {0, 15, 16, 17, 38, 39, 40}) {
      memory.begin_again(0);
      memory.run(in, want, {{0, {kRows, 3, kRows, {saved, 0}}}});
      // The same state, saved by shorter spans.
      memory.begin_again(1);
      std::vector<Matrix> got = outputs(shape, kRows);
      while (memory.done(1) <= saved) {
        const int32_t at = saved - memory.done(1);
        memory.run(in, got, {{1, {6, 6, 5, at < 6 ? StateSpan::Save{at, 1} : StateSpan::Save{}}}});
        if (memory.done(1) + 6 > kRows) break;
      }
      if (memory.done(1) > saved) {
        EXPECT_TRUE(same_bits(memory.snapshot(0), memory.snapshot(1), static_cast<int32_t>(shape.state_floats())));
      }
      if (saved + 1 == kRows) continue;
      got = outputs(shape, kRows);
      for (int32_t r = 0; r <= saved; ++r) std::copy_n(want[0].row(r), shape.v_width(), got[2].row(r));
      memory.restore(0, 2, saved + 1);
      memory.run(in, got, {{2, {kRows - saved - 1, 2, kRows - saved - 1}}});
      ASSERT_TRUE(same(got[2], want[0])) << shape.k_dim << " after " << saved;
    }
  }
}

TEST_P(DeltaNets, GatesMatchReference) {
  const auto ref = make_ref_ops();
  const auto cpu = make(2);
  for (const int32_t width : {1, 7, 64, 301}) {
    for (const int32_t gates : {width, 1}) {
      Matrix gate(9, gates), got(9, width);
      gate.fill_normal(random_, 3);
      got.fill_normal(random_);
      Matrix want = got, alone = got;
      cpu->sigmoid_gate(gate.view(), got.view());
      ref->sigmoid_gate(gate.view(), want.view());
      EXPECT_LT(error_of(got, want), 1e-6) << width;
      EXPECT_TRUE(got.guards_intact());
      for (int32_t r = 0; r < 9; ++r) {
        cpu->sigmoid_gate(gate.view().part(r, 1), alone.view().part(r, 1));
      }
      EXPECT_TRUE(same(alone, got)) << width;
    }
  }
}

TEST_P(DeltaNets, ScaledRowsMatchReference) {
  const auto ref = make_ref_ops();
  const auto cpu = make(2);
  for (const int32_t width : {1, 7, 64, 301}) {
    Matrix got(9, width);
    got.fill_normal(random_);
    Matrix want = got, alone = got;
    cpu->scale(got.view(), 0.22F);
    ref->scale(want.view(), 0.22F);
    EXPECT_LT(error_of(got, want), 1e-7) << width;
    EXPECT_TRUE(got.guards_intact());
    for (int32_t r = 0; r < 9; ++r) cpu->scale(alone.view().part(r, 1), 0.22F);
    EXPECT_TRUE(same(alone, got)) << width;
  }
}

TEST_P(DeltaNets, GeluGatesMatchReference) {
  const auto ref = make_ref_ops();
  const auto cpu = make(2);
  for (const int32_t width : {1, 7, 64, 301}) {
    Matrix gate(9, width), got(9, width);
    gate.fill_normal(random_, 3);
    const float far[] = {-100, -13, -1e-20F, 0, 14, 1e4F, -1e4F};  // where exponentials end
    for (int32_t i = 0; i < std::min(width, 7); ++i) gate.row(3)[i] = far[i];
    if (Matrix::fills_with_bf16) gate.round_to_bf16();
    got.fill_normal(random_);
    Matrix want = got, alone = got;
    cpu->gelu_gate(gate.view(), got.view());
    ref->gelu_gate(gate.view(), want.view());
    EXPECT_LT(error_of(got, want), 1e-5) << width;  // e^88 of an argument in fp32
    EXPECT_TRUE(got.guards_intact());
    for (int32_t r = 0; r < 9; ++r) cpu->gelu_gate(gate.view().part(r, 1), alone.view().part(r, 1));
    EXPECT_TRUE(same(alone, got)) << width;
  }
}

ASHLAR_FOR_EACH_ISA(DeltaNets);

}  // namespace
}  // namespace ashlar::conformance
