#pragma once
// Logits in bounded memory: the head runs on a chunk of rows, the chunk is consumed, the buffer is used again.

#include <memory>

#include "device/ops.h"

namespace ashlar {

class LogitsBuffer {
 public:
  LogitsBuffer(Ops& ops, int32_t rows, int32_t vocab)
      : storage_(ops.allocate(sizeof(float) * static_cast<size_t>(rows) * vocab)),
        logits_{reinterpret_cast<float*>(storage_->data()), rows, vocab, vocab} {}

  int32_t capacity() const { return logits_.rows; }
  Tensor rows(int32_t n) const { return logits_.narrow(n); }

 private:
  std::unique_ptr<Buffer> storage_;
  Tensor logits_;
};

/// Rows of logits held at a time: enough for several spans, so that the head's weights are read once for all of them.
inline constexpr int32_t kLogitRows = 128;

}  // namespace ashlar
