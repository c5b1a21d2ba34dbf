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
  /// As many rows as fill the products of any device.
  static constexpr int32_t kRows = 1024;

  /// `layers`: target layers in the order of the drafter's columns. `max_tokens`: of a document. The model's
  /// activations are shared: no engine may run meanwhile. Throws Error("train", ...) if a layer is not
  /// the model's. `rows`: of documents, computed together. `final_hidden`: final_hidden() is there too.
  HiddenCapture(Model& model, std::span<const int32_t> layers, int32_t max_tokens, int32_t rows = kRows,
                bool final_hidden = false);

  /// Columns of a token: layers times the target's hidden size.
  int32_t width() const { return width_; }
  /// Of each document, [ids, width()]: the residual stream after each of the layers, in the device's memory and its
  /// type of activations, until the next call. Returns when they are there for whatever uses the device. No bit depends
  /// on which documents come together.
  std::span<const Tensor> capture(std::span<const std::span<const int32_t>> documents);
  /// Of each document of the last call, [ids, hidden]: what the head takes, in the same memory as long.
  std::span<const Tensor> final_hidden() const { return finals_; }
  /// Bytes of a token's hidden states.
  int64_t token_bytes() const;
  /// Bytes of pages that this keeps.
  int64_t bytes() const { return forward_.bytes(); }

 private:
  void capture_long(std::span<const int32_t> ids, Tensor to, Tensor final_to);
  int32_t final_width() const { return wants_final_ ? forward_.model().config().stack.hidden : 0; }

  int32_t width_;
  bool wants_final_;
  int32_t max_tokens_;
  SequenceForward forward_;
  std::vector<AuxLayer> layers_;     // ascending by layer
  std::unique_ptr<Buffer> storage_;  // of the documents of a call, one after another; grows
  std::vector<Tensor> documents_, finals_;
};

}  // namespace ashlar
