// SPDX-License-Identifier: Apache-2.0
#pragma once
// The target's auxiliary hidden states of whole documents, as a drafter reads them when it serves: the same forward, on
// the same device, where they stay.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/sequence_forward.h"

namespace ashlar {

class HiddenCapture {
 public:
  /// `layers`: target layers in the order of the drafter's columns. `max_tokens`: of a document. The model's
  /// activations are shared: no engine may run meanwhile. Throws Error("train", ...) if a layer is not
  /// the model's.
  HiddenCapture(Model& model, std::span<const int32_t> layers, int32_t max_tokens);

  /// Columns of a token: layers times the target's hidden size.
  int32_t width() const { return width_; }
  /// Of each document, [ids, width()]: the residual stream after each of the layers, in the device's memory and its
  /// type of activations, until the next call. Returns when they are there for whatever uses the device. No bit depends
  /// on which documents come together.
  std::span<const Tensor> capture(std::span<const std::span<const int32_t>> documents);
  /// Bytes of a token's hidden states.
  int64_t token_bytes() const;
  /// Bytes of pages that this keeps.
  int64_t bytes() const { return forward_.bytes(); }

 private:
  void capture_long(std::span<const int32_t> ids, Tensor to);

  int32_t width_;
  int32_t max_tokens_;
  SequenceForward forward_;
  std::vector<AuxLayer> layers_;     // ascending by layer
  std::unique_ptr<Buffer> storage_;  // of the documents of a call, one after another; grows
  std::vector<Tensor> documents_;
};

}  // namespace ashlar
