// SPDX-License-Identifier: Apache-2.0
#pragma once
// The target's forward and head by themselves, without sampling, scheduler or drafter.

#include <memory>
#include <vector>

#include "device/device_array.h"
#include "model/model.h"

namespace ashlar {

class ForwardBench {
 public:
  /// A sequence of `ids`, the first `context` of them in the cache after construction. Forwards have at most
  /// `max_rows` rows and stay within the ids. The caller has reserved the model's activations for that many rows.
  /// `model` outlives this.
  ForwardBench(Model& model, std::vector<int32_t> ids, int32_t context, int32_t max_rows);

  /// The verification of `rows` rows after the context: forward, and the head on all of them. One row is a plain
  /// decoding step.
  void verify(int32_t rows);
  /// Computes the first `tokens` tokens in chunks of at most max_rows, with the head on the last row.
  void prefill(int32_t tokens);

 private:
  void forward(int32_t start, int32_t rows, bool all_outputs, bool head);

  Model& model_;
  std::vector<int32_t> ids_;
  int32_t context_;
  int32_t max_rows_;
  int32_t replays_ = 0;  // StateSpan
  RowBatch batch_;
  DeviceArray<int32_t> pages_;
  std::unique_ptr<KvMemory> kv_;
  std::unique_ptr<Buffer> storage_;
  Tensor logits_;  // [kMaxWidth, vocab]
};

}  // namespace ashlar
