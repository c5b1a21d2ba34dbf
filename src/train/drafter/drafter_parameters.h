// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trained tensors of a drafter: values, gradients and moments, each kind in one piece of memory, so that clipping
// and optimiser are one loop each; and the values as products take them.

#include <memory>
#include <string>
#include <vector>

#include "train/drafter_trainer.h"

namespace ashlar {

struct DrafterParameter {
  Tensor value;     ///< [outputs, inputs], or one row
  Tensor gradient;  ///< the same shape
  Tensor factor;    ///< the value as products take it: itself, or a copy in another type
};

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

class DrafterParameters {
 public:
  /// `factors`: what products take.
  DrafterParameters(TrainOps& ops, const TrainShape& shape, DType factors);

  /// To be called where values have changed since the last product.
  void refresh_factors();
  void initialise(uint64_t seed);
  std::span<const TrainParameter> list() const { return list_; }

  DrafterParameter fc, hidden_norm, norm;
  std::vector<DrafterLayerParameters> layers;
  SelectorParameters selector;

  int64_t size() const { return size_; }  ///< floats of each kind, padding included
  float* values() const { return floats(kValues); }
  float* gradients() const { return floats(kGradients); }
  float* m() const { return floats(kFirstMoments); }
  float* v() const { return floats(kSecondMoments); }

 private:
  enum Kind { kValues, kGradients, kFirstMoments, kSecondMoments, kKinds };
  float* floats(Kind kind) const { return reinterpret_cast<float*>(memory_->data()) + kind * size_; }
  struct Form;
  template <class Fn>
  void for_each(const TrainShape& shape, const Fn& fn);
  void start(size_t parameter, uint64_t seed);

  TrainOps& ops_;
  int64_t size_ = 0;
  std::unique_ptr<Buffer> memory_;   // [kinds][size_]
  std::unique_ptr<Buffer> factors_;  // [size_] in bf16, if products take that
  std::vector<TrainParameter> list_;
  /// Values before the first step.
  enum class Start : uint8_t { kNoise, kZero, kOne, kIdentity };  // kIdentity: [sides, taps, n] of which tap 0 is 1
  std::vector<Start> starts_;
};

}  // namespace ashlar
