#pragma once
// The target's auxiliary hidden states of whole documents, as a drafter reads them when it serves: the same forward, on
// the same device, in chunks.

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

  /// Floats of a token: layers times the target's hidden size.
  int32_t width() const { return width_; }
  /// to[token * width() + column]: the residual stream after each of the layers. Waits for the device.
  void capture(std::span<const int32_t> ids, std::span<float> to);
  /// Bytes of pages and rows that this keeps.
  int64_t bytes() const;

 private:
  int32_t width_;
  int32_t max_tokens_;
  SequenceForward forward_;
  std::vector<AuxLayer> layers_;  // ascending by layer
  std::unique_ptr<Buffer> storage_;
  Tensor rows_;  // [chunk, width]
  std::vector<std::byte> host_;
};

}  // namespace ashlar
