// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/expert_tensors.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace ashlar {
namespace {

// Experts call their parts as the dense MLP does: "mlp.gate_proj" is "gate_proj.weight" of an expert.
std::string part_of(const std::string& dense) { return dense.substr(dense.rfind('.') + 1) + ".weight"; }

// Of [in, out] the values of [out, in], in tiles that the caches hold.
std::vector<std::byte> turn(const WeightPart& stored) {
  constexpr int64_t kTile = 32;
  const auto bytes = static_cast<size_t>(stored.values.group_bytes);
  std::vector<std::byte> out(bytes * static_cast<size_t>(stored.rows * stored.cols));
  for (int64_t row = 0; row < stored.cols; row += kTile) {
    for (int64_t col = 0; col < stored.rows; ++col) {
      for (int64_t r = row; r < std::min(row + kTile, stored.cols); ++r) {
        std::memcpy(out.data() + bytes * static_cast<size_t>(r * stored.rows + col), stored.values.at(col, r), bytes);
      }
    }
  }
  return out;
}

// Of a merged tensor's name, "NAME.weight" or "NAME".
std::string bias_of(std::string name) {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return name + "_bias";
  return name.replace(name.size() - kWeight.size(), kWeight.size(), ".bias");
}

}  // namespace

ExpertTensors::ExpertTensors(WeightBinder& binder, const std::string& layer, const StackConfig& config) {
  config.moe->by_turns ? take_by_turns(binder, layer, config) : take_apart(binder, layer, config);
  for (ExpertSource& expert : experts_) expert.gate = config.moe->gate;
}

void ExpertTensors::take_apart(WeightBinder& binder, const std::string& layer, const StackConfig& config) {
  const LayerNames& names = config.names;
  const MoeConfig& moe = *config.moe;
  const int32_t hidden = config.hidden;
  std::vector<WeightPart> gate, up, down;
  if (names.experts == nullptr || binder.has(layer + names.merged_gate_up)) {
    const auto both =
        binder.matrices(layer + names.merged_gate_up, moe.n_experts, int64_t{2} * moe.intermediate, hidden);
    for (const WeightPart& one : both) {
      gate.push_back(one.block(0, moe.intermediate, 0, hidden));
      up.push_back(one.block(moe.intermediate, moe.intermediate, 0, hidden));
    }
    down = binder.matrices(layer + names.merged_down, moe.n_experts, hidden, moe.intermediate);
  } else if (binder.has(layer + names.merged_gate)) {
    gate = binder.matrices(layer + names.merged_gate, moe.n_experts, moe.intermediate, hidden);
    up = binder.matrices(layer + names.merged_up, moe.n_experts, moe.intermediate, hidden);
    down = binder.matrices(layer + names.merged_down, moe.n_experts, hidden, moe.intermediate);
  } else {
    for (int32_t e = 0; e < moe.n_experts; ++e) {
      const std::string base = layer + names.experts + std::to_string(e) + ".";
      gate.push_back(binder.matrix(base + part_of(names.gate), moe.intermediate, hidden));
      up.push_back(binder.matrix(base + part_of(names.up), moe.intermediate, hidden));
      down.push_back(binder.matrix(base + part_of(names.down), hidden, moe.intermediate));
    }
  }
  for (size_t e = 0; e < gate.size(); ++e) experts_.push_back({{{gate[e], up[e]}, {}}, {{down[e]}, {}}});
  if (!moe.biases) return;
  const auto append = [&](const char* weight, int64_t n, auto to) {
    const std::vector<float> values = binder.table(layer + bias_of(weight), moe.n_experts, n);
    for (size_t e = 0; e < experts_.size(); ++e) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(e) * n;
      (experts_[e].*to).bias.insert((experts_[e].*to).bias.end(), begin, begin + n);
    }
  };
  append(names.merged_gate, moe.intermediate, &ExpertSource::gate_up);
  append(names.merged_up, moe.intermediate, &ExpertSource::gate_up);
  append(names.merged_down, hidden, &ExpertSource::down);
}

std::vector<WeightPart> ExpertTensors::either_way(WeightBinder& binder, const std::string& name, const MoeConfig& moe,
                                                  int64_t rows, int64_t cols) {
  if (binder.is_quantised(name)) return binder.matrices(name, moe.n_experts, rows, cols);
  std::vector<WeightPart> parts;
  for (const WeightPart& stored : binder.matrices(name, moe.n_experts, cols, rows)) {
    turned_.push_back(turn(stored));
    parts.emplace_back(stored.name, stored.scheme, turned_.back().data(), rows, cols);
  }
  return parts;
}

void ExpertTensors::take_by_turns(WeightBinder& binder, const std::string& layer, const StackConfig& config) {
  const MoeConfig& moe = *config.moe;
  const std::string gate_up_name = layer + config.names.merged_gate_up, down_name = layer + config.names.merged_down;
  const int64_t both = int64_t{2} * moe.intermediate;
  const InterleavedHeads by_turns = {both, both};
  const auto gate_up = either_way(binder, gate_up_name, moe, both, config.hidden);
  const auto down = either_way(binder, down_name, moe, config.hidden, moe.intermediate);
  for (size_t e = 0; e < down.size(); ++e) {
    ExpertSource expert = {{{gate_up[e]}, {}}, {{down[e]}, {}}};
    expert.gate_up.parts[0].values.interleaved = by_turns;
    experts_.push_back(std::move(expert));
  }
  if (!moe.biases) return;
  const std::vector<float> gate_up_bias = binder.table(bias_of(gate_up_name), moe.n_experts, both);
  const std::vector<float> down_bias = binder.table(bias_of(down_name), moe.n_experts, config.hidden);
  for (size_t e = 0; e < experts_.size(); ++e) {
    const float* const first = gate_up_bias.data() + e * static_cast<size_t>(both);
    for (int64_t i = 0; i < both; ++i) experts_[e].gate_up.bias.push_back(first[by_turns.place_of(i)]);
    const auto begin = down_bias.begin() + static_cast<std::ptrdiff_t>(e) * config.hidden;
    experts_[e].down.bias.assign(begin, begin + config.hidden);
  }
}

}  // namespace ashlar
