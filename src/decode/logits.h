// SPDX-License-Identifier: Apache-2.0
#pragma once
// Logits in bounded memory: the head runs on a chunk of rows, the chunk is consumed, the buffer is used again.

#include "device/device_array.h"

namespace ashlar {

class LogitsBuffer {
 public:
  LogitsBuffer(Ops& ops, int32_t rows, int32_t vocab)
      : values_(ops, int64_t{rows} * vocab), logits_{values_.device(), rows, vocab, vocab} {}

  int32_t capacity() const { return logits_.rows; }
  Tensor rows(int32_t n) const { return logits_.narrow(n); }

 private:
  DeviceArray<float> values_;
  Tensor logits_;
};

/// Rows of logits held at a time: enough for several spans, so that the head's weights are read once for all of them.
inline constexpr int32_t kLogitRows = 128;
/// Most rows at a time of which only the highest logit is wanted, since no logits are kept.
inline constexpr int32_t kChoiceRows = 1024;

}  // namespace ashlar
