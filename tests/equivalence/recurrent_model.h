// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model of noise with recurrent layers between attention: the smallest that needs every part of the interface for
// states. Each recurrent layer is a gated linear recurrence, h = f h + (1 - f) v with f = sigmoid(a), whose output is
// h silu(o); a, v and o are products with the layer's input.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "unit/model/tiny_model.h"

namespace ashlar::testing {

class GatedRecurrence final : public Mixer {
 public:
  GatedRecurrence(WeightBinder& binder, const std::string& base, int32_t hidden, int32_t width)
      : width_(width),
        in_(binder.linear({{base + "recurrence.in_proj", 3 * width}}, hidden, false)),
        out_(binder.linear({{base + "recurrence.out_proj", hidden}}, width, false)) {}

  int32_t projected_width() const override { return 3 * width_; }
  int32_t mixed_width() const override { return width_; }
  size_t bytes() const override { return in_->bytes() + out_->bytes(); }
  bool is_recurrent() const override { return true; }
  void register_state(KvLayout& layout, const std::string& name, Ops&) override {
    const int64_t bytes = static_cast<int64_t>(sizeof(float)) * width_;
    state_ = layout.add_state(name, bytes, 2 * bytes);  // a row of the log: f, then what is added
  }

  void forward(Ops& ops, const MixerCall& call, Tensor x) const override {
    ops.linear(*out_, mix(ops, call), Store::kAdd, x);
  }
  void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const override {
    const Tensor mixed = mix(ops, call);
    const Tensor outputs = call.workspace.projected.narrow(call.batch.n_outputs()).columns(0, width_);
    if (outputs.rows == 0) return;
    ops.gather_rows(mixed, call.batch.outputs(), outputs);
    ops.linear(*out_, outputs, Store::kAdd, x);
  }
  void commit(Ops&, const KvMemory&, const BranchTable&, const int32_t*) const override {}

 private:
  Tensor mix(Ops& ops, const MixerCall& call) const {
    if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
    const Rows rows = call.batch.rows();
    const Tensor projected = call.workspace.projected.narrow(rows.n).columns(0, projected_width());
    const Tensor mixed = call.workspace.mixed.narrow(rows.n).columns(0, width_);
    ops.linear(*in_, call.in, Store::kOverwrite, projected);
    for (int32_t first = 0; first < rows.n;) {
      int32_t n = 1;
      while (first + n < rows.n && rows.tables[first + n] == rows.tables[first]) ++n;
      const StatePlane plane = call.memory.state(state_);
      run(rows.states[rows.tables[first]], plane, rows.positions[first], projected.part(first, n),
          mixed.part(first, n));
      first += n;
    }
    return mixed;
  }

  void run(const StateSpan& span, const StatePlane& plane, int32_t position, Tensor in, Tensor out) const {
    const size_t bytes = sizeof(float) * static_cast<size_t>(width_);
    std::vector<float> h(static_cast<size_t>(width_), 0.0F);
    const auto step = [&h, this](const float* row) {
      for (int32_t i = 0; i < width_; ++i) h[i] = row[i] * h[i] + row[width_ + i];
    };
    const auto log = [&](int32_t row) { return reinterpret_cast<float*>(plane.log(span.slot, row)); };
    if (position > 0) std::memcpy(h.data(), plane.state(span.slot), bytes);
    for (int32_t i = 0; i < span.replays && position > 0; ++i) step(log(i));
    const int32_t kept = in.rows - span.logged(in.rows);
    std::vector<float> record(2 * static_cast<size_t>(width_));
    for (int32_t r = 0; r < in.rows; ++r) {
      if (r == kept) std::memcpy(plane.state(span.slot), h.data(), bytes);
      const float* const row = in.row(r);
      for (int32_t i = 0; i < width_; ++i) {
        const float f = 1.0F / (1.0F + std::exp(-row[i]));
        record[i] = f;
        record[width_ + i] = (1.0F - f) * row[width_ + i];
      }
      step(record.data());
      for (int32_t i = 0; i < width_; ++i) {
        const float o = row[2 * width_ + i];
        out.row(r)[i] = h[i] * o / (1.0F + std::exp(-o));
      }
      if (r >= kept) std::memcpy(log(r - kept), record.data(), 2 * bytes);
      for (const StateSpan::Save& save : span.saves) {
        if (save.row == r) std::memcpy(plane.snapshot(save.snapshot), h.data(), bytes);
      }
    }
  }

  int32_t width_;
  std::unique_ptr<Weight> in_, out_;
  int32_t state_ = -1;
};

/// Four layers of hidden size 32 over 64 tokens; layers of `recurrent` are recurrent.
class RecurrentModel {
 public:
  static constexpr int32_t kHidden = 32;
  static constexpr int32_t kWidth = 24;
  static constexpr int32_t kVocab = 64;
  static constexpr int32_t kLongest = 256;

  RecurrentModel(Ops& ops, std::vector<bool> recurrent)
      : folder_(config(), tensors(recurrent)),
        model_(Model::load(ops, folder_.path(), 0,
                           [recurrent](WeightBinder& binder, const std::string& base, int32_t layer) {
                             return recurrent[static_cast<size_t>(layer)]
                                        ? std::make_unique<GatedRecurrence>(binder, base, kHidden, kWidth)
                                        : nullptr;
                           })) {}
  Model& model() { return *model_; }

 private:
  static Json config() {
    return patched(tiny_config(), R"({"hidden_size":32,"intermediate_size":48,"num_hidden_layers":4,
      "num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"vocab_size":64,"max_position_embeddings":256})");
  }
  static Tensors tensors(const std::vector<bool>& recurrent) {
    Tensors all;
    add_random(all, "model.embed_tokens.weight", {kVocab, kHidden});
    add_random(all, "model.norm.weight", {kHidden});
    add_random(all, "lm_head.weight", {kVocab, kHidden});
    for (size_t layer = 0; layer < recurrent.size(); ++layer) {
      const std::string base = "model.layers." + std::to_string(layer) + ".";
      add_random(all, base + "input_layernorm.weight", {kHidden});
      add_random(all, base + "post_attention_layernorm.weight", {kHidden});
      if (recurrent[layer]) {
        add_random(all, base + "recurrence.in_proj.weight", {3 * kWidth, kHidden});
        add_random(all, base + "recurrence.out_proj.weight", {kHidden, kWidth});
      } else {
        add_random(all, base + "self_attn.q_norm.weight", {8});
        add_random(all, base + "self_attn.k_norm.weight", {8});
        add_random(all, base + "self_attn.q_proj.weight", {32, kHidden});
        add_random(all, base + "self_attn.k_proj.weight", {16, kHidden});
        add_random(all, base + "self_attn.v_proj.weight", {16, kHidden});
        add_random(all, base + "self_attn.o_proj.weight", {kHidden, 32});
      }
      add_random(all, base + "mlp.gate_proj.weight", {48, kHidden});
      add_random(all, base + "mlp.up_proj.weight", {48, kHidden});
      add_random(all, base + "mlp.down_proj.weight", {kHidden, 48});
    }
    return all;
  }

  ModelFolder folder_;
  std::unique_ptr<Model> model_;
};

}  // namespace ashlar::testing
