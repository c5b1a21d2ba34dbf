// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole sequence through a model, chunk by chunk, on pages of its own: for what evaluates a model without an engine.

#include <cstdint>
#include <memory>
#include <span>

#include "cache/layout.h"
#include "device/device_array.h"
#include "model/model.h"

namespace ashlar {

class SequenceForward {
 public:
  /// Sequences of up to `max_tokens`, at most `max_rows` rows at a time, of up to `max_sequences`. The model's
  /// activations are shared: no engine may run meanwhile.
  SequenceForward(Model& model, int32_t max_tokens, int32_t max_rows, int32_t max_sequences = 1);

  /// Rows [start, start + rows) of `ids`, after all rows before them. Returns the final, normed hidden states of those
  /// from position `first_output` on, [outputs, hidden], valid until the next call.
  Tensor forward(std::span<const int32_t> ids, int32_t start, int32_t rows, int32_t first_output,
                 const AuxHiddenRequest& aux = {});

  /// How many of the first sequences forward_whole() takes together; at least one where that has at most max_rows().
  size_t fitting(std::span<const std::span<const int32_t>> sequences) const;
  /// All rows of these sequences, which are not empty and fit, one sequence after another. `outputs`: returns the
  /// final, normed hidden states of all rows, valid until the next call.
  Tensor forward_whole(std::span<const std::span<const int32_t>> sequences, const AuxHiddenRequest& aux,
                       bool outputs = false);

  Model& model() const { return model_; }
  /// Rows of a forward, and so the longest sequence that forward_whole() takes.
  int32_t max_rows() const { return batch_.max_rows(); }
  int64_t bytes() const { return kv_->bytes(); }  ///< of the pages

 private:
  Model& model_;
  int32_t max_sequences_;
  RowBatch batch_;
  DeviceArray<int32_t> pages_;
  std::unique_ptr<KvMemory> kv_;
};

}  // namespace ashlar
