// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trained tensors of a layer that predicts further tokens (MTP), by the names that Qwen's checkpoints give them.

#include <vector>

#include "train/drafter/trained_tensors.h"

namespace ashlar {

class MtpParameters final : public TrainedTensors {
 public:
  /// `factors`: what products take. shape.own_layer says what the layer has.
  MtpParameters(TrainOps& ops, const TrainShape& shape, DType factors);

  DrafterParameter fc;                            ///< [hidden, 2 hidden]
  DrafterParameter embedding_norm, feature_norm;  ///< of the two halves that it reads
  DrafterParameter input_norm, mlp_norm, norm;    ///< of the layer and after it
  DrafterParameter q, k, v, o;                    ///< rows of q: of each head the query, then the gate if there is one
  DrafterParameter q_norm, k_norm;                ///< [head_dim]
  DrafterParameter gate, up, down;

 private:
  std::vector<Entry> entries(const TrainShape& shape);
};

}  // namespace ashlar
