// SPDX-License-Identifier: Apache-2.0
#pragma once
// The experts of a layer, however its checkpoint stores them.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "model/binding/weight_binder.h"
#include "model/config.h"

namespace ashlar {

class ExpertTensors {
 public:
  /// `layer`: its prefix. Experts lie in a tensor each, or merged: all of a kind in one [n_experts, out, in], gates and
  /// ups apart, one after the other, or by turns (MoeConfig::by_turns).
  ExpertTensors(WeightBinder& binder, const std::string& layer, const StackConfig& config);

  /// Views of the checkpoint and of this.
  std::span<const ExpertSource> experts() const { return experts_; }

 private:
  void take_apart(WeightBinder& binder, const std::string& layer, const StackConfig& config);
  void take_by_turns(WeightBinder& binder, const std::string& layer, const StackConfig& config);
  /// The matrices of a merged tensor NAME that means [n_experts, rows, cols].
  std::vector<WeightPart> either_way(WeightBinder& binder, const std::string& name, const MoeConfig& moe, int64_t rows,
                                     int64_t cols);

  std::vector<ExpertSource> experts_;
  std::vector<std::vector<std::byte>> turned_;  // matrices whose rows were stored as columns
};

}  // namespace ashlar
