// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step of the optimiser from gradients that are there: AdamW for everything, or Muon for matrices and AdamW for
// the rest.

#include <memory>

#include "train/drafter/trained_tensors.h"

namespace ashlar {

class DrafterOptimiser {
 public:
  DrafterOptimiser(TrainOps& ops, const TrainedTensors& parameters, const TrainSettings& settings);

  /// `number` counts from 1.
  void step(double learning_rate, int64_t number);

 private:
  void muon_step(const TrainParameter& p, double learning_rate);
  /// What is nearest to u [rows, cols] among matrices whose singular values are about 1, in place.
  void orthogonalise(Tensor u);

  TrainOps& ops_;
  const TrainedTensors& parameters_;
  const TrainSettings settings_;
  std::unique_ptr<Buffer> memory_;
  float *update_ = nullptr, *product_ = nullptr;  // as large as the largest matrix
  float *gram_ = nullptr, *square_ = nullptr;     // square, of its smaller side
};

}  // namespace ashlar
