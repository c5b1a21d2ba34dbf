// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step of the optimiser from gradients that are there: AdamW for everything, or Muon for matrices and AdamW for
// the rest.

#include <memory>
#include <vector>

#include "train/drafter/trained_tensors.h"

namespace ashlar {

class DrafterOptimiser {
 public:
  DrafterOptimiser(TrainOps& ops, const TrainedTensors& parameters, const TrainSettings& settings);

  /// `number` counts from 1.
  void step(double learning_rate, int64_t number);
  /// Of its own, besides moments.
  size_t bytes() const { return memory_ == nullptr ? 0 : memory_->size(); }

 private:
  using Group = std::vector<const TrainParameter*>;  // matrices of one shape

  void muon_step(const Group& group, double learning_rate);
  /// Each of `count` matrices, one after the other in u, becomes what is nearest to it among those whose singular
  /// values are about 1.
  void orthogonalise(Tensor u, int32_t count);
  /// x as a factor of products in the type that the step computes in, in `room` where that is another.
  Tensor factor(Tensor x, uint16_t* room);

  TrainOps& ops_;
  const TrainedTensors& parameters_;
  const TrainSettings settings_;
  std::unique_ptr<Buffer> memory_;
  std::vector<Group> groups_;
  float *update_ = nullptr, *product_ = nullptr;                // as large as the largest group
  float *gram_ = nullptr, *square_ = nullptr;                   // square, of each matrix's smaller side
  uint16_t *narrow_update_ = nullptr, *narrow_gram_ = nullptr;  // in bf16, where the step computes in it
};

}  // namespace ashlar
