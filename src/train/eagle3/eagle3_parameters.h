// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trained tensors of an EAGLE-3 head, by the names that its authors and SpecForge give them.

#include <vector>

#include "train/drafter/trained_tensors.h"

namespace ashlar {

class Eagle3Parameters final : public TrainedTensors {
 public:
  /// `factors`: what products take.
  Eagle3Parameters(TrainOps& ops, const TrainShape& shape, DType factors);

  DrafterParameter fc;                                 ///< [hidden, aux_width]
  DrafterParameter embedding_norm, feature_norm;       ///< of the two halves that q, k and v read
  DrafterParameter q, k, v;                            ///< [.., 2 hidden]
  DrafterParameter o, mlp_norm, gate, up, down, norm;  ///< as in other layers

 private:
  std::vector<Entry> entries(const TrainShape& shape);
};

}  // namespace ashlar
