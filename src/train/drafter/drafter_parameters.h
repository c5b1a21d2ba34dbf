// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trained tensors of a block-diffusion drafter.

#include <vector>

#include "train/drafter/trained_tensors.h"

namespace ashlar {

/// Of the convolutions around a sublayer; empty where there are none.
struct ConvParameters {
  DrafterParameter base;    ///< [2 * taps, hidden]: of the side that enters, then of the one that leaves
  DrafterParameter kernel;  ///< [2 * taps * groups, hidden]
};

struct DrafterLayerParameters {
  DrafterParameter input_norm, q, k, v, o, q_norm, k_norm, mlp_norm, gate, up, down;
  ConvParameters attention_conv, mlp_conv;
};

/// Of the selector; empty where there is none.
struct SelectorParameters {
  DrafterParameter projection;                ///< [rank, hidden]
  DrafterParameter predecessors, successors;  ///< [vocab, rank]
};

/// Of what the token before adds to logits; empty where there is none.
struct MarkovParameters {
  DrafterParameter codes;                ///< [vocab, rank]
  DrafterParameter outputs;              ///< [vocab, rank]
  DrafterParameter rating, rating_bias;  ///< [1, rated width] and [1]; empty where drafts are not rated
};

class DrafterParameters final : public TrainedTensors {
 public:
  /// `factors`: what products take.
  DrafterParameters(TrainOps& ops, const TrainShape& shape, DType factors);

  DrafterParameter fc, hidden_norm, norm;
  std::vector<DrafterLayerParameters> layers;
  SelectorParameters selector;
  MarkovParameters markov;

 private:
  std::vector<Entry> entries(const TrainShape& shape);
};

}  // namespace ashlar
